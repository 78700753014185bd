EXTENSION = control/pg_sqs
EXTVERSION = $(shell sed -n "s/^default_version = '\(.*\)'/\1/p" control/pg_sqs.control)
MODULE_big = pg_sqs
OBJS = $(patsubst %.c,%.o,$(sort $(wildcard src/*.c)))
PGFILEDESC = "pg_sqs - Amazon SQS queues inside PostgreSQL"

DATA = $(wildcard sql/pg_sqs--*--*.sql)
DATA_built = sql/pg_sqs--$(EXTVERSION).sql

PG_CONFIG ?= pg_config
PGXS := $(shell $(PG_CONFIG) --pgxs)
include $(PGXS)

$(OBJS): $(wildcard src/*.h)

$(DATA_built): sql/pg_sqs.sql
	cp $< $@
