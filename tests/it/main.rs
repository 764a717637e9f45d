mod amqp_raw;
