mod amqp_raw;
mod capture;
mod conformance;
mod support;
