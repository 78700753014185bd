/*-------------------------------------------------------------------------
 *
 * attribute.h
 *	  Queue attributes, for the files that read, write and check them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ATTRIBUTE_H
#define ATTRIBUTE_H

#include "utils/jsonb.h"

/* in the order of the table in attribute.c */
typedef enum AttributeId
{
	ATTRIBUTE_DELAY_SECONDS,
	ATTRIBUTE_MAXIMUM_MESSAGE_SIZE,
	ATTRIBUTE_MESSAGE_RETENTION_PERIOD,
	ATTRIBUTE_RECEIVE_MESSAGE_WAIT_TIME_SECONDS,
	ATTRIBUTE_VISIBILITY_TIMEOUT,
	ATTRIBUTE_POLICY,
	ATTRIBUTE_REDRIVE_POLICY,
	ATTRIBUTE_REDRIVE_ALLOW_POLICY,
	ATTRIBUTE_KMS_MASTER_KEY_ID,
	ATTRIBUTE_KMS_DATA_KEY_REUSE_PERIOD_SECONDS,
	ATTRIBUTE_SQS_MANAGED_SSE_ENABLED,
	ATTRIBUTE_FIFO_QUEUE,
	ATTRIBUTE_CONTENT_BASED_DEDUPLICATION,
	ATTRIBUTE_DEDUPLICATION_SCOPE,
	ATTRIBUTE_FIFO_THROUGHPUT_LIMIT,
	ATTRIBUTE_UNLOGGED,
	ATTRIBUTE_APPROXIMATE_NUMBER_OF_MESSAGES,
	ATTRIBUTE_APPROXIMATE_NUMBER_OF_MESSAGES_NOT_VISIBLE,
	ATTRIBUTE_APPROXIMATE_NUMBER_OF_MESSAGES_DELAYED,
	ATTRIBUTE_CREATED_TIMESTAMP,
	ATTRIBUTE_LAST_MODIFIED_TIMESTAMP,
	ATTRIBUTE_QUEUE_ARN
} AttributeId;

#define ATTRIBUTES (ATTRIBUTE_QUEUE_ARN + 1)
#define ATTRIBUTE_COLUMNS 2		/* of sqs.queue, at most, for an attribute */

typedef enum AttributeKind
{
	KIND_INTEGER,
	KIND_BOOLEAN,
	KIND_CHOICE,				/* one of two words */
	KIND_KEY,					/* of KMS */
	KIND_POLICY,
	KIND_REDRIVE_POLICY,
	KIND_REDRIVE_ALLOW_POLICY,
	KIND_STORAGE,				/* kept in pg_class */
	KIND_TIME,
	KIND_COUNT,					/* of messages */
	KIND_ARN
} AttributeKind;

typedef enum AttributeUse
{
	USE_CREATE_AND_SET,
	USE_CREATE,
	USE_GET
} AttributeUse;

typedef struct Attribute
{
	const char *name;
	AttributeKind kind;
	AttributeUse use;
	bool		fifo;			/* of FIFO queues only */
	int32		min,
				max;			/* KIND_INTEGER */
	const char *choices[2];		/* KIND_CHOICE */
	struct
	{
		const char *name;		/* or an expression */
		const char *type;
	}			columns[ATTRIBUTE_COLUMNS]; /* of sqs.queue */
} Attribute;

/*
 * Values of attributes as text, in the form of the columns of sqs.queue that
 * hold them.  NULL = not set.
 */
typedef struct AttributeSet
{
	bool		given[ATTRIBUTES];
	char	   *input[ATTRIBUTES];	/* as given, for error messages */
	char	   *columns[ATTRIBUTES][ATTRIBUTE_COLUMNS];
} AttributeSet;

/* in attribute.c */
extern const Attribute attribute_table[ATTRIBUTES];
extern int	attribute_find(const char *name);
pg_noreturn extern void report_no_attribute(const char *name);
pg_noreturn extern void report_unknown_attribute(const char *name);
extern bool attributes_want_fifo(Jsonb *input);
extern void attributes_parse(Jsonb *input, bool creating, bool fifo,
							 AttributeSet *set);
extern void attributes_check(AttributeSet *set, const AttributeSet *current,
							 const char *queue_name, bool fifo);
extern int	attributes_compare(const AttributeSet *set,
							   const AttributeSet *current);

/* in attribute_store.c */
extern void attributes_load(int32 queue_id, AttributeSet *current);
extern void attributes_store(int32 queue_id, const AttributeSet *set);
extern void queue_modified(int32 queue_id);

/* in policy.c */
extern char *queue_arn(const char *name);
extern void policy_check(const char *input);
extern void redrive_policy_parse(const char *input, char **columns);
extern void redrive_policy_check(const char *input, char *const *columns,
								 const char *queue_name, bool fifo);
extern char *redrive_policy_text(char *const *columns);
extern void redrive_allow_policy_parse(const char *input, char **columns);
extern char *redrive_allow_policy_text(char *const *columns);

/* in json.c */
extern Jsonb *json_parse(const char *input);
extern char *json_scalar(const JsonbValue *value);
extern char *json_text(const JsonbValue *value);
extern JsonbValue *json_member(Jsonb *object, const char *key, JsonbValue *value);

/* in tag.c */
extern Jsonb *tags_parse(Jsonb *input, const char *queue_name);

/* in queue.c */
extern bool queue_name_is_valid(const char *name, bool fifo);
extern void queue_lock(const char *name);
extern void queue_get_to_change(FunctionCallInfo fcinfo, const char *call,
								Queue *queue);

#endif							/* ATTRIBUTE_H */
