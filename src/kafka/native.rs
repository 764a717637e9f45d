//! librdkafka's C functions, where rdkafka's own wrappers lose or refuse something:
//!
//! * header names that are no UTF-8 (its `Headers::get` panics) and null header values,
//! * the leader epoch of a message,
//! * at which offset of which topic the end of a partition was reached,
//! * the ids of topics.
//!
//! The functions hand a header name over as a C string: a name that holds U+0000 ends there.

use std::{
    collections::HashMap,
    ffi::{CStr, CString},
    ptr::{self, NonNull},
    slice,
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use rdkafka::{
    bindings::{self as c, rd_kafka_resp_err_t as Err},
    client::{Client, ClientContext},
    error::{IsError, RDKafkaErrorCode},
    message::BorrowedMessage,
    types::{RDKafka, RDKafkaEvent},
    util::IntoOpaque,
};
use uuid::Uuid;

use crate::{
    message::{Headers, RecordTime, Text, Value},
    source::Partition,
};

/// One message as Kafka has it.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) partition: Partition,
    pub(crate) offset: i64,
    pub(crate) key: Option<Bytes>,
    pub(crate) value: Option<Bytes>,
    pub(crate) headers: Headers,
    pub(crate) timestamp: Option<RecordTime>,
    pub(crate) leader_epoch: Option<i32>,
}

/// What a consumer's queue holds.
#[derive(Debug)]
pub(crate) enum Event {
    Records(Vec<Record>),
    /// All of a partition up to this offset has been handed out.
    End(Partition, i64),
    Assigned(Vec<Partition>),
    /// `lost`: others may have these partitions already.
    Revoked {
        partitions: Vec<Partition>,
        lost: bool,
    },
    Error {
        code: RDKafkaErrorCode,
        text: String,
        partition: Option<Partition>,
        fatal: bool,
    },
    /// The answer to a commit of offsets.
    Committed(Result<(), RDKafkaErrorCode>),
}

/// The queue of a consumer, or one of our own for answers.
#[derive(Debug)]
pub(crate) struct Queue {
    queue: NonNull<c::rd_kafka_queue_t>,
    client: *mut RDKafka,
    topics: HashMap<*mut c::rd_kafka_topic_t, Arc<str>>,
}

// SAFETY: librdkafka's queues may be used by any thread; the map is only reached through `&mut self`.
unsafe impl Send for Queue {}

impl Queue {
    /// The queue of a consumer that is in a group. Must not outlive the client.
    pub(crate) fn of_consumer<C: ClientContext>(client: &Client<C>) -> Option<Self> {
        // SAFETY: the client is alive; the reference is given back when this is dropped.
        let queue = unsafe { c::rd_kafka_queue_get_consumer(client.native_ptr()) };
        Some(Self { queue: NonNull::new(queue)?, client: client.native_ptr(), topics: HashMap::new() })
    }

    fn for_answers<C: ClientContext>(client: &Client<C>) -> Option<Self> {
        // SAFETY: as above.
        let queue = unsafe { c::rd_kafka_queue_new(client.native_ptr()) };
        Some(Self { queue: NonNull::new(queue)?, client: client.native_ptr(), topics: HashMap::new() })
    }

    fn next(&self, patience: Duration) -> Option<Raw> {
        let millis = i32::try_from(patience.as_millis()).unwrap_or(i32::MAX);
        // SAFETY: the queue lives as long as `self`.
        NonNull::new(unsafe { c::rd_kafka_queue_poll(self.queue.as_ptr(), millis) }).map(Raw)
    }

    /// The next event that is of interest, waiting for `patience`. Tells librdkafka that we are alive.
    pub(crate) fn poll(&mut self, patience: Duration) -> Option<Event> {
        let event = self.next(patience)?;
        match event.kind() {
            c::RD_KAFKA_EVENT_FETCH => Some(Event::Records(self.records(&event))),
            c::RD_KAFKA_EVENT_REBALANCE => self.rebalance(&event),
            c::RD_KAFKA_EVENT_ERROR => self.error(&event),
            c::RD_KAFKA_EVENT_OFFSET_COMMIT => {
                let code = event.code();
                Some(Event::Committed(if code.is_error() { Result::Err(code.into()) } else { Ok(()) }))
            }
            c::RD_KAFKA_EVENT_LOG => {
                event.log();
                None
            }
            _ => None,
        }
    }

    fn records(&mut self, event: &Raw) -> Vec<Record> {
        let mut records = Vec::new();
        // SAFETY: messages belong to the event, which outlives this loop.
        while let Some(message) = unsafe { c::rd_kafka_event_message_next(event.0.as_ptr()).as_ref() } {
            if !message.err.is_error() {
                // SAFETY: as above.
                records.push(unsafe { record(message, self.topic(message.rkt)) });
            }
        }
        records
    }

    /// # Safety
    /// `topic` must be alive.
    unsafe fn topic(&mut self, topic: *mut c::rd_kafka_topic_t) -> Arc<str> {
        let name = self.topics.entry(topic).or_insert_with(|| {
            // SAFETY: a living topic has a name.
            unsafe { text(c::rd_kafka_topic_name(topic)) }.into()
        });
        // A topic made anew may have the address of another one that is gone.
        // SAFETY: as above.
        let now = unsafe { CStr::from_ptr(c::rd_kafka_topic_name(topic)) };
        if now.to_bytes() != name.as_bytes() {
            *name = now.to_string_lossy().into();
        }
        Arc::clone(name)
    }

    fn rebalance(&self, event: &Raw) -> Option<Event> {
        // SAFETY: the list and its names belong to the event.
        let partitions = unsafe {
            let list = c::rd_kafka_event_topic_partition_list(event.0.as_ptr()).as_ref()?;
            let elements = if list.elems.is_null() {
                &[]
            } else {
                slice::from_raw_parts(list.elems, usize::try_from(list.cnt).unwrap_or(0))
            };
            let partition = |element: &c::rd_kafka_topic_partition_t| Partition {
                topic: text(element.topic).into(),
                number: element.partition,
            };
            elements.iter().map(partition).collect()
        };
        match event.code() {
            Err::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS => Some(Event::Assigned(partitions)),
            Err::RD_KAFKA_RESP_ERR__REVOKE_PARTITIONS => {
                // SAFETY: the client outlives its queue.
                let lost = unsafe { c::rd_kafka_assignment_lost(self.client) } != 0;
                Some(Event::Revoked { partitions, lost })
            }
            _ => None,
        }
    }

    fn error(&self, event: &Raw) -> Option<Event> {
        let code = event.code();
        if !code.is_error() {
            return None;
        }
        let place = event.place();
        if let (Err::RD_KAFKA_RESP_ERR__PARTITION_EOF, Some((partition, offset))) = (code, &place) {
            return Some(Event::End(partition.clone(), *offset));
        }
        // SAFETY: the event is alive and an error.
        let (words, fatal) = unsafe {
            let words = text(c::rd_kafka_event_error_string(event.0.as_ptr()));
            (words, c::rd_kafka_event_error_is_fatal(event.0.as_ptr()) != 0)
        };
        Some(Event::Error { code: code.into(), text: words, partition: place.map(|(partition, _)| partition), fatal })
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: gives back the reference taken when this was made.
        unsafe { c::rd_kafka_queue_destroy(self.queue.as_ptr()) };
    }
}

/// An event that is freed with its owner.
struct Raw(NonNull<RDKafkaEvent>);

impl Raw {
    fn kind(&self) -> i32 {
        // SAFETY: the event is alive.
        unsafe { c::rd_kafka_event_type(self.0.as_ptr()) }
    }

    fn code(&self) -> Err {
        // SAFETY: the event is alive.
        unsafe { c::rd_kafka_event_error(self.0.as_ptr()) }
    }

    fn place(&self) -> Option<(Partition, i64)> {
        // SAFETY: what is returned is ours to free, and has a topic.
        unsafe {
            let place = NonNull::new(c::rd_kafka_event_topic_partition(self.0.as_ptr()))?;
            let element = place.as_ref();
            let partition = Partition { topic: text(element.topic).into(), number: element.partition };
            let offset = element.offset;
            c::rd_kafka_topic_partition_destroy(place.as_ptr());
            Some((partition, offset))
        }
    }

    /// librdkafka's own log lines, with the level it gave them.
    fn log(&self) {
        let (mut facility, mut words, mut level) = (ptr::null(), ptr::null(), 0);
        // SAFETY: the strings belong to the event.
        let (facility, words) = unsafe {
            if c::rd_kafka_event_log(self.0.as_ptr(), &raw mut facility, &raw mut words, &raw mut level) != 0 {
                return;
            }
            (text(facility), text(words))
        };
        super::client::log(level, &facility, &words);
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // SAFETY: we own it.
        unsafe { c::rd_kafka_event_destroy(self.0.as_ptr()) };
    }
}

/// # Safety
/// Null, or a C string.
unsafe fn text(words: *const std::ffi::c_char) -> String {
    if words.is_null() {
        return String::new();
    }
    // SAFETY: the caller's word.
    unsafe { CStr::from_ptr(words) }.to_string_lossy().into_owned()
}

/// A copy of some bytes of librdkafka's; null is `None`, however long it says it is.
///
/// # Safety
/// `start` is null or points to `len` bytes.
unsafe fn bytes<'a>(start: *const std::ffi::c_void, len: usize) -> Option<&'a [u8]> {
    // SAFETY: the caller's word.
    (!start.is_null()).then(|| unsafe { slice::from_raw_parts(start.cast(), len) })
}

/// # Safety
/// `message` must be alive.
unsafe fn record(message: &c::rd_kafka_message_t, topic: Arc<str>) -> Record {
    // SAFETY: the message owns all that is read here.
    unsafe {
        let mut kind = c::rd_kafka_timestamp_type_t::RD_KAFKA_TIMESTAMP_NOT_AVAILABLE;
        let millis = c::rd_kafka_message_timestamp(message, &raw mut kind);
        let timestamp = match kind {
            c::rd_kafka_timestamp_type_t::RD_KAFKA_TIMESTAMP_NOT_AVAILABLE => None,
            c::rd_kafka_timestamp_type_t::RD_KAFKA_TIMESTAMP_CREATE_TIME => Some(RecordTime::Created(millis)),
            c::rd_kafka_timestamp_type_t::RD_KAFKA_TIMESTAMP_LOG_APPEND_TIME => Some(RecordTime::Appended(millis)),
        };
        let leader_epoch = c::rd_kafka_message_leader_epoch(message);
        Record {
            partition: Partition { topic, number: message.partition },
            offset: message.offset,
            key: bytes(message.key, message.key_len).map(Bytes::copy_from_slice),
            value: bytes(message.payload, message.len).map(Bytes::copy_from_slice),
            headers: headers(message),
            timestamp,
            leader_epoch: (leader_epoch >= 0).then_some(leader_epoch),
        }
    }
}

/// # Safety
/// `message` must be alive.
unsafe fn headers(message: &c::rd_kafka_message_t) -> Headers {
    // SAFETY: the headers belong to the message, names and values to the headers.
    unsafe {
        let mut list = ptr::null_mut();
        if c::rd_kafka_message_headers(message, &raw mut list).is_error() {
            return Headers::new();
        }
        let count = c::rd_kafka_header_cnt(list);
        let mut headers = Headers::with_capacity(count);
        for n in 0..count {
            let (mut name, mut value, mut size) = (ptr::null(), ptr::null(), 0);
            if c::rd_kafka_header_get_all(list, n, &raw mut name, &raw mut value, &raw mut size).is_error() {
                break;
            }
            let value = bytes(value, size).map_or(Value::Void, |value| Value::Bytes(value.to_vec()));
            headers.push(Text::from(CStr::from_ptr(name).to_bytes()), value);
        }
        headers
    }
}

/// What the group knows this consumer as, while it is a member.
pub(crate) fn member_id<C: ClientContext>(client: &Client<C>) -> Option<String> {
    // SAFETY: the string is ours to free, with the same client's memory.
    unsafe {
        let id = NonNull::new(c::rd_kafka_memberid(client.native_ptr()))?;
        let copy = text(id.as_ptr());
        c::rd_kafka_mem_free(client.native_ptr(), id.as_ptr().cast());
        Some(copy)
    }
}

/// A record to be produced. A null header value is a [`Value::Void`].
#[derive(Debug)]
pub(crate) struct Outgoing<'a> {
    pub(crate) topic: &'a str,
    /// `None`: any.
    pub(crate) partition: Option<i32>,
    pub(crate) key: Option<&'a [u8]>,
    pub(crate) value: Option<&'a [u8]>,
    pub(crate) headers: &'a Headers,
    pub(crate) millis: Option<i64>,
}

/// Hands a record to a producer of rdkafka's, which gives `opaque` to its context with the delivery report. What cannot be
/// handed over gives it back.
pub(crate) fn produce<C: ClientContext, T: IntoOpaque>(
    client: &Client<C>,
    record: &Outgoing<'_>,
    opaque: T,
) -> Result<(), (RDKafkaErrorCode, T)> {
    fn parts(bytes: Option<&[u8]>) -> (*const std::ffi::c_void, usize) {
        bytes.map_or((ptr::null(), 0), |bytes| (bytes.as_ptr().cast(), bytes.len()))
    }
    let Ok(topic) = CString::new(record.topic) else { return Result::Err((RDKafkaErrorCode::InvalidTopic, opaque)) };
    let (value, value_len) = parts(record.value);
    let (key, key_len) = parts(record.key);
    let opaque = opaque.into_ptr();
    // SAFETY: everything is copied, but for the headers, which are librdkafka's once it has taken the record, and the
    // opaque, which comes back with the report, or is taken back here.
    unsafe {
        let headers = c::rd_kafka_headers_new(record.headers.len());
        for (name, header) in record.headers.iter() {
            let (start, len) = parts(header.as_bytes());
            let len = isize::try_from(len).unwrap_or(isize::MAX);
            let name_len = isize::try_from(name.len()).unwrap_or(isize::MAX);
            c::rd_kafka_header_add(headers, name.as_bytes().as_ptr().cast(), name_len, start, len);
        }
        let code = c::rd_kafka_producev(
            client.native_ptr(),
            c::rd_kafka_vtype_t::RD_KAFKA_VTYPE_TOPIC,
            topic.as_ptr(),
            c::rd_kafka_vtype_t::RD_KAFKA_VTYPE_PARTITION,
            record.partition.unwrap_or(-1),
            c::rd_kafka_vtype_t::RD_KAFKA_VTYPE_MSGFLAGS,
            c::RD_KAFKA_MSG_F_COPY,
            c::rd_kafka_vtype_t::RD_KAFKA_VTYPE_VALUE,
            value,
            value_len,
            c::rd_kafka_vtype_t::RD_KAFKA_VTYPE_KEY,
            key,
            key_len,
            c::rd_kafka_vtype_t::RD_KAFKA_VTYPE_OPAQUE,
            opaque,
            c::rd_kafka_vtype_t::RD_KAFKA_VTYPE_TIMESTAMP,
            record.millis.unwrap_or(0),
            c::rd_kafka_vtype_t::RD_KAFKA_VTYPE_HEADERS,
            headers,
            c::rd_kafka_vtype_t::RD_KAFKA_VTYPE_END,
        );
        if code.is_error() {
            c::rd_kafka_headers_destroy(headers);
            return Result::Err((code.into(), T::from_ptr(opaque)));
        }
    }
    Ok(())
}

/// How far a message got that was not delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// It did not leave.
    NotSent,
    /// It may have arrived.
    Possible,
    Arrived,
}

/// Of a message that came with a delivery report.
pub(crate) fn reach(message: &BorrowedMessage<'_>) -> Reach {
    // SAFETY: the message is alive.
    match unsafe { c::rd_kafka_message_status(message.ptr()) } {
        c::rd_kafka_msg_status_t::RD_KAFKA_MSG_STATUS_NOT_PERSISTED => Reach::NotSent,
        c::rd_kafka_msg_status_t::RD_KAFKA_MSG_STATUS_POSSIBLY_PERSISTED => Reach::Possible,
        c::rd_kafka_msg_status_t::RD_KAFKA_MSG_STATUS_PERSISTED => Reach::Arrived,
    }
}

/// The ids of topics, for those that there are. Older brokers have none: nil.
pub(crate) fn topic_ids<C: ClientContext>(
    client: &Client<C>,
    topics: &[&str],
    patience: Duration,
) -> Result<HashMap<String, Uuid>, String> {
    if topics.is_empty() {
        return Ok(HashMap::new());
    }
    let names: Vec<CString> = topics.iter().filter_map(|name| CString::new(*name).ok()).collect();
    let mut pointers: Vec<_> = names.iter().map(|name| name.as_ptr()).collect();
    let queue = Queue::for_answers(client).ok_or("no queue for the answer")?;
    // SAFETY: librdkafka copies names and options; all that is made here is freed here.
    unsafe {
        let options =
            c::rd_kafka_AdminOptions_new(client.native_ptr(), c::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_DESCRIBETOPICS);
        let millis = i32::try_from(patience.as_millis()).unwrap_or(i32::MAX);
        c::rd_kafka_AdminOptions_set_request_timeout(options, millis, ptr::null_mut(), 0);
        let collection = c::rd_kafka_TopicCollection_of_topic_names(pointers.as_mut_ptr(), pointers.len());
        c::rd_kafka_DescribeTopics(client.native_ptr(), collection, options, queue.queue.as_ptr());
        c::rd_kafka_TopicCollection_destroy(collection);
        c::rd_kafka_AdminOptions_destroy(options);
    }
    let answer = queue.next(patience + Duration::from_secs(1)).ok_or("the broker did not answer")?;
    if answer.code().is_error() {
        return Result::Err(RDKafkaErrorCode::from(answer.code()).to_string());
    }
    // SAFETY: everything read here belongs to the answer.
    unsafe {
        let result = c::rd_kafka_event_DescribeTopics_result(answer.0.as_ptr());
        if result.is_null() {
            return Result::Err("the broker's answer is none".to_owned());
        }
        let mut count = 0;
        let described = c::rd_kafka_DescribeTopics_result_topics(result, &raw mut count);
        let described = if described.is_null() { &[] } else { slice::from_raw_parts(described, count) };
        Ok((described.iter())
            .filter(|topic| !c::rd_kafka_error_code(c::rd_kafka_TopicDescription_error(**topic)).is_error())
            .map(|topic| {
                let id = c::rd_kafka_TopicDescription_topic_id(*topic);
                let half = |bits: i64| u64::from_ne_bytes(bits.to_ne_bytes());
                let id = Uuid::from_u64_pair(
                    half(c::rd_kafka_Uuid_most_significant_bits(id)),
                    half(c::rd_kafka_Uuid_least_significant_bits(id)),
                );
                (text(c::rd_kafka_TopicDescription_name(*topic)), id)
            })
            .collect())
    }
}
