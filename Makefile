EXTENSION = control/pg_sqs
EXTVERSION = $(shell sed -n "s/^default_version = '\(.*\)'/\1/p" control/pg_sqs.control)
MODULE_big = pg_sqs
OBJS = $(patsubst %.c,%.o,$(sort $(wildcard src/*.c)))
PGFILEDESC = "pg_sqs - Amazon SQS queues inside PostgreSQL"

DATA = $(wildcard sql/pg_sqs--*--*.sql)
DATA_built = sql/pg_sqs--$(EXTVERSION).sql

# make installcheck: of what is installed, on a server of its own (not as root)
TEST_CONFIG = test/pg_sqs.conf
TEST_OPTS = --inputdir=test --load-extension=pg_sqs --encoding=UTF8 --no-locale \
	--temp-instance=tmp_check --temp-config=$(TEST_CONFIG)
REGRESS = $(sort $(basename $(notdir $(wildcard test/sql/*.sql))))
REGRESS_OPTS = $(TEST_OPTS)
ISOLATION = $(sort $(basename $(notdir $(wildcard test/specs/*.spec))))
ISOLATION_OPTS = $(TEST_OPTS) --outputdir=.
TAP_TESTS = $(wildcard test/t/*.pl)
PROVE_TESTS = $(TAP_TESTS)

# These are scripts: they work from a bare checkout and need no PGXS.
SCRIPTS_OF = check check-versions check-assert demo bench indent
ifneq ($(filter $(SCRIPTS_OF),$(MAKECMDGOALS)),)
.PHONY: $(SCRIPTS_OF)
check check-versions check-assert demo indent: ; @test/$@
bench: ; @test/bench/run
endif

ifneq ($(filter-out $(SCRIPTS_OF),$(or $(MAKECMDGOALS),all)),)
ifneq ($(words $(CURDIR)),1)
$(error PGXS cannot build in a folder with spaces in its path: $(CURDIR))
endif
PG_CONFIG ?= pg_config
PGXS := $(shell $(PG_CONFIG) --pgxs)
ifeq ($(wildcard $(PGXS)),)
$(error $(PG_CONFIG) knows no PGXS: install postgresql-server-dev-15, or say where: make PG_CONFIG=/path/to/pg_config)
endif

# the JIT compiler could inline nothing of use here, so clang is not needed
override with_llvm = no
include $(PGXS)

$(OBJS): $(wildcard src/*.h)

$(DATA_built): sql/pg_sqs.sql
	cp $< $@
endif
