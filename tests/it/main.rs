mod amqp_raw;
mod capture;
mod cli;
mod conformance;
mod faults;
mod schema;
mod support;
