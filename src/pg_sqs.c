/*-------------------------------------------------------------------------
 *
 * pg_sqs.c
 *	  Loads the extension: settings, callbacks.
 *
 * The library may be preloaded or be loaded by the first call of a session;
 * what it promises is the same either way (design: the tables are the truth).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/guc.h"

#include "compat.h"
#include "pg_sqs.h"

PG_MODULE_MAGIC_EXT(
					.name = "pg_sqs",
					.version = "1.0"
);

int			sqs_max_queues = 1024;
bool		sqs_worker = true;
int			sqs_maintenance_interval = 1000;
int			sqs_max_batch_size = 10;
int			sqs_max_inflight = 120000;
bool		sqs_async_receive = true;
int			sqs_cooldown = 0;
char	   *sqs_region = NULL;
char	   *sqs_account_id = NULL;

void		_PG_init(void);

/* Defines what the administrator sets. */
static void
define_server_settings(void)
{
	if (process_shared_preload_libraries_in_progress)
		DefineCustomIntVariable("pg_sqs.max_queues",
								"Sets how many queues can have a place in shared memory.",
								"A queue without one works, only slower.",
								&sqs_max_queues, 1024, 1, 1000000,
								PGC_POSTMASTER, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("pg_sqs.worker",
							 "Runs the background workers.",
							 NULL, &sqs_worker, true,
							 PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("pg_sqs.maintenance_interval",
							"Sets the time between two rounds of a background worker.",
							NULL, &sqs_maintenance_interval, 1000, 100, 3600000,
							PGC_SIGHUP, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomIntVariable("pg_sqs.max_inflight",
							"Sets how many messages of a queue may be in flight.",
							"0 means no limit.",
							&sqs_max_inflight, 120000, 0, INT_MAX,
							PGC_SUSET, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("pg_sqs.cooldown",
							"Sets the seconds before a deleted queue's name can be used again and a queue purged again.",
							"Amazon SQS has 60.",
							&sqs_cooldown, 0, 0, 3600,
							PGC_SUSET, GUC_UNIT_S, NULL, NULL, NULL);
	DefineCustomStringVariable("pg_sqs.region",
							   "Sets the region in the ARN of a queue.",
							   NULL, &sqs_region, "local",
							   PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomStringVariable("pg_sqs.account_id",
							   "Sets the account in the ARN of a queue.",
							   NULL, &sqs_account_id, "000000000000",
							   PGC_SIGHUP, 0, NULL, NULL, NULL);
}

/* Defines what any user sets. */
static void
define_user_settings(void)
{
	DefineCustomIntVariable("pg_sqs.max_batch_size",
							"Sets the most messages of a receive and entries of a batch.",
							"Amazon SQS has 10.",
							&sqs_max_batch_size, 10, 1, SQS_MAX_BATCH_SIZE,
							PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("pg_sqs.async_receive",
							 "Lets a transaction that only received commit without waiting for the WAL flush.",
							 "A crash then ends a visibility timeout early; it never loses a message.",
							 &sqs_async_receive, true,
							 PGC_USERSET, 0, NULL, NULL, NULL);
}

/* Called by the server when it loads the library. */
void
_PG_init(void)
{
	define_server_settings();
	define_user_settings();
	MarkGUCPrefixReserved("pg_sqs");
	if (IsBinaryUpgrade)
		return;
	catalog_init();
	shmem_init();
	xact_init();
	launcher_init();
}
