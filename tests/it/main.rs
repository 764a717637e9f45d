mod amqp_raw;
mod capture;
mod conformance;
mod process;
mod support;
