/*-------------------------------------------------------------------------
 *
 * wakeup.c
 *	  How soon a waiting receive returns, and whom a send wakes.
 *
 *		wakeup latency N		prints the median and the 99th percentile in
 *								milliseconds of N sends, each to one waiter
 *		wakeup herd WAITERS N	prints how many waiters ran because of a send,
 *								the mean of N sends
 *
 * A latency is taken from the call of sqs_send to the arrival of the message,
 * so it has the send and its commit in it.  A waiter ran if its process gave
 * up the processor anew.
 *
 *-------------------------------------------------------------------------
 */
#include <libpq-fe.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SETTLE_US 20000			/* for a waiter to fall asleep */

/* Ends the program with an error of a connection. */
static void
fail(PGconn *conn)
{
	fprintf(stderr, "wakeup: %s", PQerrorMessage(conn));
	exit(1);
}

/* Connects as the environment says. */
static PGconn *
open_connection(void)
{
	PGconn	   *conn = PQconnectdb("");

	if (PQstatus(conn) != CONNECTION_OK)
		fail(conn);
	return conn;
}

/* The monotonic clock in milliseconds. */
static double
now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

static int
compare(const void *a, const void *b)
{
	double		x = *(const double *) a;
	double		y = *(const double *) b;

	return (x > y) - (x < y);
}

/* Sorts values and returns the one below which a part of them is. */
static double
percentile(double *values, int n, double part)
{
	qsort(values, n, sizeof(double), compare);
	return values[(int) (part * (n - 1) + 0.5)];
}

/* Has a connection wait for a message. */
static void
start_waiting(PGconn *conn)
{
	if (!PQsendQuery(conn, "SELECT sqs_delete('wakeup', receipt_handle)"
					 " FROM sqs_receive('wakeup', wait_time_seconds => 20)"))
		fail(conn);
}

/* Takes what a connection waited for; whether there was a message. */
static int
finish_waiting(PGconn *conn)
{
	PGresult   *result;
	int			rows = 0;

	while ((result = PQgetResult(conn)) != NULL)
	{
		if (PQresultStatus(result) != PGRES_TUPLES_OK)
			fail(conn);
		rows += PQntuples(result);
		PQclear(result);
	}
	return rows > 0;
}

/* Starts a send, without waiting for its end. */
static void
start_send(PGconn *conn)
{
	if (!PQsendQuery(conn, "SELECT sqs_send('wakeup', 'now')"))
		fail(conn);
	while (PQflush(conn) > 0)
		;
}

/* Measures n latencies. */
static void
measure_latency(int n)
{
	PGconn	   *waiter = open_connection();
	PGconn	   *sender = open_connection();
	double	   *ms = malloc(n * sizeof(double));

	for (int i = 0; i < n; i++)
	{
		struct pollfd socket = {.fd = PQsocket(waiter), .events = POLLIN};
		double		start;

		start_waiting(waiter);
		usleep(SETTLE_US);
		start = now_ms();
		start_send(sender);
		poll(&socket, 1, -1);
		ms[i] = now_ms() - start;
		finish_waiting(waiter);
		finish_waiting(sender);
	}
	printf("%.3f %.3f\n", percentile(ms, n, 0.5), percentile(ms, n, 0.99));
}

/* How often a process gave up the processor. */
static long
switches(int pid)
{
	char		path[64];
	char		line[256];
	long		count = -1;
	FILE	   *file;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	file = fopen(path, "r");
	while (file != NULL && fgets(line, sizeof(line), file) != NULL)
		if (sscanf(line, "voluntary_ctxt_switches: %ld", &count) == 1)
			break;
	if (file != NULL)
		fclose(file);
	return count;
}

/* How many of the waiters run while something is sent, or nothing is. */
static int
count_runners(PGconn **waiters, int n, PGconn *sender)
{
	long	   *before = malloc(n * sizeof(long));
	int			ran = 0;

	for (int i = 0; i < n; i++)
		before[i] = switches(PQbackendPID(waiters[i]));
	if (sender != NULL)
		start_send(sender);
	usleep(SETTLE_US);
	for (int i = 0; i < n; i++)
		ran += switches(PQbackendPID(waiters[i])) != before[i];
	free(before);
	if (sender != NULL)
		finish_waiting(sender);
	return ran;
}

/* Has those wait again whose message came. */
static void
wait_again(PGconn **waiters, int n)
{
	for (int i = 0; i < n; i++)
	{
		PQconsumeInput(waiters[i]);
		if (!PQisBusy(waiters[i]))
		{
			finish_waiting(waiters[i]);
			start_waiting(waiters[i]);
		}
	}
	usleep(10 * SETTLE_US);
}

/*
 * Counts, n times, how many waiters run when something is sent, and takes off
 * how many do anyway: each looks once a second whether its client is there.
 */
static void
measure_herd(int n_waiters, int n)
{
	PGconn	  **waiters = malloc(n_waiters * sizeof(PGconn *));
	PGconn	   *sender = open_connection();
	int			woken = 0;

	for (int i = 0; i < n_waiters; i++)
	{
		waiters[i] = open_connection();
		start_waiting(waiters[i]);
	}
	usleep(50 * SETTLE_US);
	for (int i = 0; i < n; i++)
	{
		woken -= count_runners(waiters, n_waiters, NULL);
		woken += count_runners(waiters, n_waiters, sender);
		wait_again(waiters, n_waiters);
	}
	printf("%.2f\n", (double) woken / n);
}

int
main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "latency") == 0)
		measure_latency(atoi(argv[2]));
	else if (argc == 4 && strcmp(argv[1], "herd") == 0)
		measure_herd(atoi(argv[2]), atoi(argv[3]));
	else
		return 2;
	return 0;
}
