use super::*;

#[test]
fn null_is_told_apart_from_empty() {
    let null = Record::builder("t", 0, 0).build();
    assert_eq!((null.key(), null.value()), (None, None));
    assert_eq!((null.key_bytes(), null.value_bytes()), (None, None));

    let empty = Record::builder("t", 0, 0).key("").value("").build();
    assert_eq!((empty.key(), empty.value()), (Some(&b""[..]), Some(&b""[..])));
    assert_eq!(empty.value_bytes(), Some(Bytes::new()));
}

#[test]
fn headers_keep_order_duplicates_nulls_and_bytes_that_are_not_text() {
    let record = Record::builder("t", 1, 2)
        .key(&b"\xff\x00k"[..])
        .value("v")
        .header("a", "1")
        .header_null("b")
        .header("a", "")
        .header(&b"\xfe"[..], &b"\xff"[..])
        .build();

    let all: Vec<_> = record
        .headers()
        .iter()
        .map(|h| (h.name_bytes().to_vec(), h.value().map(<[u8]>::to_vec)))
        .collect();
    assert_eq!(
        all,
        [
            (b"a".to_vec(), Some(b"1".to_vec())),
            (b"b".to_vec(), None),
            (b"a".to_vec(), Some(vec![])),
            (b"\xfe".to_vec(), Some(b"\xff".to_vec())),
        ]
    );
    assert_eq!(record.headers().get("a").unwrap().value(), Some(&b""[..]), "the last one counts");
    assert_eq!(record.headers().get_all("a").count(), 2);
    assert!(record.headers().get("c").is_none());
    assert_eq!(record.key(), Some(&b"\xff\x00k"[..]));
}

#[test]
fn a_hundred_headers_and_a_megabyte_fit_in_one_buffer() {
    let mut builder = Record::builder("t", 0, 9).key("k").value(vec![7u8; 1 << 20]);
    for i in 0..100 {
        builder = builder.header(format!("h{i}"), vec![i as u8; i]);
    }
    let record = builder.build();
    assert_eq!(record.headers().len(), 100);
    for (i, header) in record.headers().iter().enumerate() {
        assert_eq!(header.name(), format!("h{i}"));
        assert_eq!(header.value().unwrap().len(), i);
    }
    assert_eq!(record.value().unwrap().len(), 1 << 20);
}

#[test]
fn shared_parts_do_not_copy() {
    let record = Record::builder("t", 0, 9).key("key").value("value").build();
    let (key, value) = (record.key_bytes().unwrap(), record.value_bytes().unwrap());
    assert_eq!(key.as_ptr(), record.key().unwrap().as_ptr());
    assert_eq!(value.as_ptr(), record.value().unwrap().as_ptr());
}

#[test]
fn the_id_names_the_place() {
    let record = Record::builder("a-b", 3, i64::MAX).build();
    assert_eq!(record.id().to_string(), "a-b-3-9223372036854775807");
    assert_eq!(record.id(), record.clone().id());
}
