use super::*;
use crate::source::StartAt;

fn subscription() -> Subscription {
    Subscription {
        group_id: "g".into(),
        topics: vec!["t".into()],
        start_at: StartAt::Earliest,
        prefetch_bytes: 128 << 20,
        drain_deadline: None,
    }
}

fn options(given: &[(&str, &str)]) -> Options {
    let mut options = Options::default();
    for (name, value) in given {
        options.set((*name).into(), (*value).into());
    }
    options
}

fn refusal(given: &[(&str, &str)]) -> String {
    let error = options(given).check(&subscription()).err().expect("refused");
    assert_eq!(error.kind(), ErrorKind::Config);
    error.to_string()
}

fn to_join(given: &[(&str, &str)], partitions: u64) -> Result<ClientConfig, Error> {
    let subscription = subscription();
    options(given).check(&subscription)?.to_join("b:1", &subscription, partitions)
}

#[test]
fn what_would_undo_a_promise_is_refused_by_name() {
    // C37
    for (name, value) in [
        ("enable.auto.commit", "true"),
        ("enable.auto.commit", "false"),
        ("auto.commit.enable", "true"),
        ("auto.commit.interval.ms", "100"),
        ("enable.auto.offset.store", "true"),
        ("auto.offset.reset", "latest"),
        ("enable.partition.eof", "true"),
        ("group.id", "other"),
        ("bootstrap.servers", "b:2"),
        ("metadata.broker.list", "b:2"),
        ("allow.auto.create.topics", "true"),
        ("test.mock.num.brokers", "1"),
    ] {
        let text = refusal(&[(name, value)]);
        assert!(text.starts_with(&format!("{name} = {value}: ")), "{text}");
    }
    assert_eq!(
        refusal(&[("enable.auto.commit", "true")]),
        "enable.auto.commit = true: KPipe commits what is finished; remove the option \
         (see \"Who commits\" in the README)"
    );
}

#[test]
fn the_new_protocol_refuses_what_the_broker_decides() {
    // C35
    for name in ["session.timeout.ms", "heartbeat.interval.ms", "partition.assignment.strategy"] {
        assert!(
            options(&[(name, "6000")]).check(&subscription()).is_ok(),
            "{name} in a classic group"
        );
        let text = refusal(&[("group.protocol", "consumer"), (name, "6000")]);
        assert!(
            text.starts_with(&format!("{name} = 6000: not with group.protocol=consumer")),
            "{text}"
        );
    }
    let short = [("group.protocol", "consumer"), ("max.poll.interval.ms", "6000")];
    assert!(options(&short).check(&subscription()).is_ok(), "no session timeout to compare with");
}

#[test]
fn intervals_that_contradict_each_other_are_refused() {
    let text = refusal(&[("max.poll.interval.ms", "6000")]);
    assert!(
        text.starts_with(
            "max.poll.interval.ms = 6000: must be at least session.timeout.ms (45000)"
        )
    );
    assert_eq!(
        refusal(&[("session.timeout.ms", "600000")]),
        "session.timeout.ms = 600000: must be at most max.poll.interval.ms (300000), or a member \
         would be given up before it is missed"
    );
    let text = refusal(&[("session.timeout.ms", "7000"), ("max.poll.interval.ms", "6000")]);
    assert!(text.starts_with("max.poll.interval.ms = 6000: "), "{text}");
    let equal = [("max.poll.interval.ms", "6000"), ("session.timeout.ms", "6000")];
    assert_eq!(
        options(&equal).check(&subscription()).unwrap().max_poll_interval,
        Duration::from_secs(6)
    );
    for value in ["six", "-1", "6 s", ""] {
        let text = refusal(&[("max.poll.interval.ms", value)]);
        assert!(text.contains("must be a whole number from 1 to 86400000"), "{text}");
    }
}

#[test]
fn a_drain_must_end_before_the_group_gives_up() {
    let mut subscription = subscription();
    subscription.drain_deadline = Some(Duration::from_secs(360));
    let error = Options::default().check(&subscription).err().unwrap();
    assert_eq!(
        error.to_string(),
        "drain_deadline = 6m: must be shorter than max.poll.interval.ms (5m), after which the \
         broker ends the rebalance without this member"
    );
    subscription.drain_deadline = Some(Duration::from_secs(299));
    assert!(Options::default().check(&subscription).is_ok());
}

#[test]
fn defaults_can_be_overridden_and_promises_cannot() {
    let config = to_join(&[("fetch.wait.max.ms", "7"), ("client.rack", "a")], 8).unwrap();
    for (name, value) in [
        ("fetch.wait.max.ms", "7"),
        ("client.rack", "a"),
        ("fetch.queue.backoff.ms", "10"),
        ("statistics.interval.ms", "1000"),
        ("auto.offset.reset", "error"),
        ("enable.auto.commit", "false"),
        ("allow.auto.create.topics", "false"),
        ("group.id", "g"),
        ("bootstrap.servers", "b:1"),
        ("queued.max.messages.kbytes", "8192"),
    ] {
        assert_eq!(config.get(name), Some(value), "{name}");
    }
}

#[test]
fn the_budget_is_the_upper_limit_of_what_is_fetched_ahead() {
    assert!(to_join(&[("queued.max.messages.kbytes", "8192")], 8).is_ok());
    let refused = |name, value, partitions| {
        let error = to_join(&[(name, value)], partitions).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Config);
        error.to_string()
    };
    assert_eq!(
        refused("queued.max.messages.kbytes", "8193", 8),
        "queued.max.messages.kbytes = 8193: must be at most 8192: what `bytes_in_hand` leaves for \
         each of 8 partitions; with more of it, up to 65536 is accepted"
    );
    assert_eq!(
        refused("queued.min.messages", "100001", 1),
        "queued.min.messages = 100001: must be at most 100000, whatever `bytes_in_hand` is"
    );
    assert_eq!(
        refused("queued.max.messages.kbytes", "65537", 1),
        "queued.max.messages.kbytes = 65537: must be at most 65536, whatever `bytes_in_hand` is"
    );
}

#[test]
fn secrets_are_never_shown() {
    let secret = "hunter2";
    let names = [
        "sasl.password",
        "ssl.key.password",
        "ssl.keystore.password",
        "ssl.key.pem",
        "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.config",
    ];
    for name in names {
        let options = options(&[(name, secret)]);
        let shown = format!("{options:?}");
        assert!(shown.contains(name) && !shown.contains(secret), "{shown}");
        let complaint = KafkaError::ClientConfig(
            rdkafka::types::RDKafkaConfRes::RD_KAFKA_CONF_INVALID,
            "not good".into(),
            name.into(),
            secret.into(),
        );
        let error = config_error(complaint);
        assert_eq!(error.to_string(), format!("{name} = ***: not good"));
    }
    assert!(format!("{:?}", options(&[("sasl.username", "me")])).contains("me"));
}

#[test]
fn librdkafka_names_options_that_it_does_not_know() {
    let config = to_join(&[("fetch.wiat.max.ms", "7")], 1).unwrap();
    let error = config_error(config.create_native_config().err().unwrap());
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().starts_with("fetch.wiat.max.ms = 7: "), "{error}");

    let config = to_join(&[("isolation.level", "serializable")], 1).unwrap();
    let error = config_error(config.create_native_config().err().unwrap());
    assert!(error.to_string().starts_with("isolation.level = serializable: "), "{error}");
}

#[cfg(not(any(feature = "tls", feature = "tls-vendored", feature = "dynamic-linking")))]
#[test]
fn a_build_without_tls_names_the_feature() {
    let config = to_join(&[("security.protocol", "ssl")], 1).unwrap();
    let error = config_error(config.create_native_config().err().unwrap());
    assert!(error.to_string().starts_with("security.protocol = ssl: "), "{error}");
    assert!(error.to_string().ends_with("enable the feature `tls` of kpipe-core"), "{error}");
}

#[test]
fn a_first_look_takes_only_what_it_needs_to_connect() {
    let given = [
        ("sasl.username", "me"),
        ("socket.timeout.ms", "5000"),
        ("group.instance.id", "i"),
        ("fetch.wait.max.ms", "7"),
    ];
    let config = options(&given).check(&subscription()).unwrap().to_look("b:1");
    assert_eq!(config.get("sasl.username"), Some("me"));
    assert_eq!(config.get("socket.timeout.ms"), Some("5000"));
    assert_eq!(config.get("group.instance.id"), None);
    assert_eq!(config.get("fetch.wait.max.ms"), None);
    assert_eq!(config.get("group.id"), None);
}
