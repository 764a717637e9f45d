-- What every new cluster gets: the tests' role makes itself a database per test. One statement a line.
CREATE ROLE dlo LOGIN CREATEDB PASSWORD 'dlo';
CREATE DATABASE dlo OWNER dlo;
