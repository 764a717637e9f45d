mod amqp_raw;
mod capture;
mod cli;
mod support;
