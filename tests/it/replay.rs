//! From the table home to RabbitMQ, end to end: what arrives, what is said of it, and what happens when something breaks.

mod faults;
mod home;
mod many;
mod outcomes;
mod returns;
mod speed;
