/*-------------------------------------------------------------------------
 *
 * identity.c
 *	  Acts as another user for a while.
 *
 * The catalog is read and changed as its owner, for callers have no right to
 * it; and what the owner of a queue chose to happen to its table (triggers,
 * index expressions) happens as that owner when it is not the caller who
 * asked for it.  Neither may be able to harm the other: the caller is out of
 * reach of the owner's functions (a security-restricted operation, as of
 * VACUUM or REINDEX), and the owner's functions are out of reach of the
 * caller's search_path.
 *
 * An error undoes all of it with the (sub)transaction.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/guc.h"

#include "pg_sqs.h"

/*
 * Begins to act as a user; own is for the way back.  InvalidOid stays who it
 * is, and unrestricted, but with the same search_path.
 */
void
identity_assume(Oid user, Identity *own)
{
	GetUserIdAndSecContext(&own->user, &own->security);
	if (OidIsValid(user))
		SetUserIdAndSecContext(user, own->security |
							   SECURITY_LOCAL_USERID_CHANGE |
							   SECURITY_RESTRICTED_OPERATION);
	own->guc_level = NewGUCNestLevel();
	(void) set_config_option("search_path", "pg_catalog, pg_temp",
							 PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
}

/* Ends what identity_assume began. */
void
identity_resume(const Identity *own)
{
	AtEOXact_GUC(true, own->guc_level);
	SetUserIdAndSecContext(own->user, own->security);
}
