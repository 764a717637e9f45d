mod amqp_raw;
mod capture;
mod support;
