//! Handlers that really take time: no deadline that is minutes away ends them, whatever the runtime's
//! clock is.

use std::time::Duration;

use kpipe_core::{Consumer, Failure, Record};
use kpipe_test::{TestRecord, TestStream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const TAKES: Duration = Duration::from_millis(200);

/// Answers one HTTP request on loopback after a while, from a thread that is not tokio's.
fn slow_server() -> std::net::SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        use std::io::{Read, Write};
        for stream in listener.incoming().take(3) {
            let mut stream = stream.unwrap();
            let mut request = [0; 1_024];
            let _ = stream.read(&mut request).unwrap();
            std::thread::sleep(TAKES);
            stream.write_all(b"HTTP/1.1 204 No Content\r\ncontent-length: 0\r\n\r\n").unwrap();
        }
    });
    address
}

fn caller(address: std::net::SocketAddr) -> Consumer {
    Consumer::new("g").topic("t", move |_: Record| async move {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n").await?;
        let mut answer = [0; 64];
        let read = stream.read(&mut answer).await?;
        if answer[..read].starts_with(b"HTTP/1.1 204") {
            Ok(())
        } else {
            Err(Failure::msg("no 204"))
        }
    })
}

fn blocker() -> Consumer {
    Consumer::new("g").topic("t", |_: Record| async {
        tokio::task::spawn_blocking(|| std::thread::sleep(TAKES)).await?;
        Ok(())
    })
}

async fn passes(consumer: Consumer) {
    let mut stream = TestStream::new(consumer);
    for _ in 0..2 {
        stream.send("t", TestRecord::new());
    }
    stream.flush().await.assert_all_passed();
}

#[tokio::test]
async fn loopback_http() {
    passes(caller(slow_server())).await;
}

#[tokio::test(start_paused = true)]
async fn loopback_http_paused() {
    passes(caller(slow_server())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn loopback_http_on_several_threads() {
    passes(caller(slow_server())).await;
}

#[tokio::test]
async fn spawn_blocking() {
    passes(blocker()).await;
}

#[tokio::test(start_paused = true)]
async fn spawn_blocking_paused() {
    passes(blocker()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn spawn_blocking_on_several_threads() {
    passes(blocker()).await;
}

/// A server in a task of the test's own runtime.
#[tokio::test(start_paused = true)]
async fn a_server_beside_the_test() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 1_024];
            let _ = stream.read(&mut request).await.unwrap();
            stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.unwrap();
        }
    });
    passes(caller(address)).await;
}
