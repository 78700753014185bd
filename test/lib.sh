# lib.sh: what check, demo and bench share, so that each works for anyone.
#
# PostgreSQL refuses to run as root and pg_sqs may not be installed, so these
# scripts work in a temporary copy of the checkout ($WORK) that belongs to an
# unprivileged user ($RUN_AS), and the server loads the extension from there.
# Nothing is written to the checkout, nor to the system but for packages that
# are missing.  Servers listen on sockets in temporary folders only, so any
# number of these scripts can run side by side.

TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
CACHE=${PG_SQS_CACHE:-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/pg_sqs}
[ "$(id -u)" != 0 ] || CACHE=${PG_SQS_CACHE:-/var/cache/pg_sqs}
WORK=
RUN_AS=
VERSION=							# the server's major version
INSTALLING=()						# files that are there while packages are installed
STAGE=${STAGE:-}					# a build to use; by default it is made here

# what a calling make or a login would bring along
unset MAKEFLAGS MFLAGS MAKELEVEL PGHOST PGPORT PGUSER PGDATABASE PGDATA PGOPTIONS PGSERVICE
export LC_ALL=C.UTF-8 LANG=C.UTF-8

say()
{
	echo "== $*"
}

die()
{
	echo "$(basename "$0"): $*" >&2
	exit 1
}

have()
{
	command -v "$1" >/dev/null 2>&1
}

# can_install: may packages be installed without asking?
can_install()
{
	have apt-get && { [ "$(id -u)" = 0 ] || { have sudo && sudo -n true 2>/dev/null; }; }
}

as_root()
{
	if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

as_user()
{
	if [ "$(id -u)" = 0 ]; then
		HOME=$WORK runuser -u "$RUN_AS" -- "$@"
	else
		"$@"
	fi
}

apt()
{
	as_root env DEBIAN_FRONTEND=noninteractive \
		apt-get -qq -o DPkg::Lock::Timeout=300 "$@" </dev/null
}

# own_apt TOOL ARGUMENT...: apt with the sources in $WORK/sources.list and all
# its state in $WORK, so that neither root nor a change of the system is needed
own_apt()
{
	local tool=$1

	shift
	mkdir -p "$WORK/apt/lists/partial" "$WORK/apt/cache/archives/partial"
	"$tool" -qq -o APT::Sandbox::User="$(id -un)" \
		-o Dir::Etc::SourceList="$WORK/sources.list" -o Dir::Etc::SourceParts=- \
		-o Dir::State::Lists="$WORK/apt/lists" -o Dir::Cache="$WORK/apt/cache" \
		-o Acquire::Languages=none -o Acquire::Check-Valid-Until=false \
		-o Acquire::http::Timeout=20 -o Acquire::Retries=1 "$@"
}

# debian_sources: the Debian archives of this machine, as "URI SUITE" lines
debian_sources()
{
	apt-get indextargets --format '$(ORIGIN) $(REPO_URI) $(RELEASE)' 2>/dev/null |
		sed -n 's/^Debian //p' | sort -u
}

# debian_mirror: the archive that has every suite
debian_mirror()
{
	apt-get indextargets --format '$(LABEL) $(REPO_URI)' 2>/dev/null |
		sed -n 's/^Debian //p' | head -n 1
}

# install PACKAGE...: installs packages, of which none starts a service, and a
# new PostgreSQL gets no cluster
install()
{
	local conf=/etc/postgresql-common/createcluster.d/pg_sqs-tests.conf
	local policy=/usr/sbin/policy-rc.d status

	say "installing $*"
	INSTALLING=($conf)
	as_root mkdir -p "$(dirname $conf)"
	echo "create_main_cluster = false" | as_root tee $conf >/dev/null
	if [ ! -e $policy ]; then
		INSTALLING+=($policy)
		printf '#!/bin/sh\nexit 101\n' | as_root tee $policy >/dev/null
		as_root chmod 755 $policy
	fi
	apt install -y --no-install-recommends "$@" >"$WORK/apt.log" 2>&1
	status=$?
	as_root rm -f "${INSTALLING[@]}"
	INSTALLING=()
	[ $status = 0 ] || tail -20 "$WORK/apt.log"
	return $status
}

# find_postgres: sets PG_CONFIG to the first that has a server and PGXS
find_postgres()
{
	local candidate pgxs candidates=(pg_config /usr/lib/postgresql/{18,17,16,15}/bin/pg_config)

	[ -z "${PG_CONFIG:-}" ] || candidates=("$PG_CONFIG")
	for candidate in "${candidates[@]}"; do
		pgxs=$("$candidate" --pgxs 2>/dev/null) || continue
		BIN=$("$candidate" --bindir)
		if [ -f "$pgxs" ] && [ -x "$BIN/postgres" ]; then
			PG_CONFIG=$(command -v "$candidate")
			VERSION=$("$BIN/postgres" -V | sed -E 's/^[^0-9]*([0-9]+).*/\1/')
			return 0
		fi
	done
	return 1
}

# need WHAT...: sees to compiler, server, tap, libpq, or COMMAND:PACKAGE; and to
# indent, cron and pooler, which may stay missing: what needs them is skipped
need()
{
	local what version missing=() wanted=()

	for what; do
		case $what in
			compiler) have gcc && have make && [ -f /usr/include/stdio.h ] ||
				missing+=(gcc make libc6-dev) ;;
			server) find_postgres || missing+=(server) ;;
			tap) perl -MIPC::Run -MTest::More -e 1 2>/dev/null && have prove ||
				missing+=(libipc-run-perl) ;;
			libpq) [ -f /usr/include/postgresql/libpq-fe.h ] || missing+=(libpq-dev) ;;
			indent) have pg_bsd_indent || wanted+=(pg-bsd-indent) ;;
			cron) [ "${BIN#/usr/lib/postgresql/}" = "$BIN" ] ||
				[ -f "$("$PG_CONFIG" --sharedir)/extension/pg_cron.control" ] || wanted+=(cron) ;;
			pooler) [ -x /usr/sbin/pgbouncer ] || wanted+=(pgbouncer) ;;
			*) have "${what%:*}" || missing+=("${what#*:}") ;;
		esac
	done
	if [ ${#missing[@]} -gt 0 ]; then
		have apt-get || die "missing: ${missing[*]} (and no apt-get to install it with)"
		[ "$(id -u)" = 0 ] || have sudo || die "missing: ${missing[*]}: run this as root, or install sudo"
		[ -z "${PG_CONFIG:-}" ] || find_postgres || die "$PG_CONFIG has no server with PGXS"
	elif [ ${#wanted[@]} = 0 ] || ! can_install; then
		return
	fi
	apt update >/dev/null 2>&1

	for version in $VERSION 15 16 17 18; do
		! apt-cache show postgresql-server-dev-$version >/dev/null 2>&1 || break
	done
	for what in "${wanted[@]}"; do
		[ "$what" != cron ] || what=postgresql-$version-cron
		! apt-cache show "$what" >/dev/null 2>&1 || missing+=("$what")
	done
	[ ${#missing[@]} = 0 ] || install ${missing[*]/#server/postgresql-$version postgresql-server-dev-$version} ||
		die "apt-get could not install: ${missing[*]}"
	case " $* " in
		*" server "*) find_postgres || die "no PostgreSQL server with PGXS, even after installing it" ;;
	esac
}

# make_work: creates $WORK, and arranges that it goes with this script
make_work()
{
	WORK=$(mktemp -d "${TMPDIR:-/tmp}/pg_sqs.XXXXXX") || exit 1
	trap clean_up EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM HUP
}

# clean_up: stops every server whose data is in $WORK, then removes it
clean_up()
{
	local file

	trap - EXIT
	[ ${#INSTALLING[@]} = 0 ] || as_root rm -f "${INSTALLING[@]}"
	[ -d "$WORK" ] || return
	cd /
	find "$WORK" -name postmaster.pid 2>/dev/null | while read -r file; do
		stop_server "$(dirname "$file")"
	done
	rm -rf "$WORK"
}

# stop_server DATA: stops the server of a data directory, by process id
stop_server()
{
	local pid try

	pid=$(head -n 1 "$1/postmaster.pid" 2>/dev/null) || return 0
	kill -INT "$pid" 2>/dev/null || return 0
	for try in $(seq 100); do
		kill -0 "$pid" 2>/dev/null || return 0
		sleep 0.1
	done
	kill -QUIT "$pid" 2>/dev/null
}

# copy_source: copies the checkout to $WORK/src, which $RUN_AS then owns, and
# goes where that user may be
copy_source()
{
	mkdir "$WORK/src"
	tar -C "$TOP" -c --exclude=./.git --exclude=./stage --exclude=./tmp_check \
		--exclude=./results --exclude='*.o' --exclude='*.bc' --exclude='*.so' . |
		tar -C "$WORK/src" -x --no-same-owner || exit 1
	if [ "$(id -u)" = 0 ]; then
		RUN_AS=postgres
		getent passwd postgres >/dev/null || RUN_AS=nobody
		chown -R "$RUN_AS" "$WORK"
	fi
	cd "$WORK"
}

# in_source COMMAND...: runs a command as $RUN_AS in $WORK/src
in_source()
{
	(cd "$WORK/src" && as_user "$@")
}

# build OPTION...: builds the copy and installs it below $STAGE
build()
{
	local make=(make -s PG_CONFIG="$PG_CONFIG")

	[ -z "$STAGE" ] || return 0
	STAGE=$WORK/stage
	in_source "${make[@]}" -j"$(nproc)" "$@" &&
		in_source "${make[@]}" install DESTDIR="$STAGE" "$@"
}

# stage_settings: prints what makes a server load pg_sqs from $STAGE
stage_settings()
{
	local settings

	settings=$("$BIN/postgres" --describe-config | cut -f 1)
	echo "dynamic_library_path = '$STAGE$("$PG_CONFIG" --pkglibdir):\$libdir'"
	if grep -qx extension_control_path <<<"$settings"; then
		echo "extension_control_path = '$STAGE$("$PG_CONFIG" --sharedir):\$system'"
	elif grep -qx extension_destdir <<<"$settings"; then
		echo "extension_destdir = '$STAGE'"
	else
		die "$BIN/postgres cannot load an extension from elsewhere: use Debian's packages, or PostgreSQL 18"
	fi
}

# start_server SETTING...: a server with pg_sqs preloaded, its socket in $WORK
start_server()
{
	local data=$WORK/data

	as_user "$BIN/initdb" -D "$data" -U postgres -A trust -E UTF8 --no-locale -N \
		>"$WORK/initdb.log" 2>&1 || { cat "$WORK/initdb.log"; exit 1; }
	{
		stage_settings
		echo "shared_preload_libraries = 'pg_sqs'"
		echo "unix_socket_directories = '$WORK'"
		echo "listen_addresses = ''"
		printf '%s\n' "$@"
	} | as_user tee -a "$data/postgresql.conf" >/dev/null
	as_user "$BIN/pg_ctl" -D "$data" -l "$WORK/server.log" -w start >/dev/null ||
		{ tail -20 "$WORK/server.log"; exit 1; }
	export PGHOST=$WORK PGUSER=postgres PGDATABASE=postgres
}
