# Stores tasks for spoold or uWSGI. Source this file: it needs Bash 5.1 or later and the GNU coreutils, and nothing else.
#
#   source spool.bash
#   path=$(spool -a $(($(date +%s) + 60)) -p 5 -b letter.txt /var/spool/app to joe)

SPOOL_LIMIT=65535 # bytes: the size of the block and each length in it are 16-bit numbers
SPOOL_COUNTER=0

# spool [-a AT] [-p PRIORITY] [-b FILE] [-n] SPOOLER [KEY VALUE]…: stores one task, and prints the path of its file.
#
#   SPOOLER      the spool directory, which has to exist
#   KEY VALUE    the dictionary, in order. Bash strings cannot contain NUL bytes: put such data into the body
#   -a AT        do not run before this time: epoch seconds, may have a fraction
#   -p PRIORITY  the priority directory, digits only; lower runs first if the daemon has spooler-ordered
#   -b FILE      the body, of any size; - is standard input
#   -n           do not wait until the task is on disk; by default it survives a power failure
#
# Returns 64 for invalid arguments, before anything is written, and 1 if the task could not be stored.
spool() {
  local LC_ALL=C OPTIND=1 OPTION at='' priority='' body='' sync=1
  while getopts a:p:b:n OPTION; do
    case $OPTION in
      a) at=$OPTARG ;; p) priority=$OPTARG ;; b) body=$OPTARG ;; n) sync= ;;
      *) return 64 ;;
    esac
  done
  shift $((OPTIND - 1))
  (($# > 0)) || spool_refuse 'the spool directory is missing' || return 64
  local spooler=$1
  spool_check "$at" "$priority" "${@:2}" || return 64
  shift

  local directory=$spooler${priority:+/$priority}
  [ -z "$priority" ] || [ -d "$directory" ] || mkdir -- "$directory" || [ -d "$directory" ] || return 1 # 0777 & ~umask
  local now=$EPOCHREALTIME # seconds.micros
  local name=uwsgi_spoolfile_on_${HOSTNAME}_${BASHPID}_$((++SPOOL_COUNTER))_$((SRANDOM >> 1))_${now%.*}_$((10#${now#*.}))
  # No daemon runs a file whose name begins with a dot; the rename publishes only a complete file.
  local hidden=$directory/.$name path=$directory/$name
  {
    (
      umask 077 # 0600
      set -o noclobber
      { spool_packet "$@" ${at:+at "$at"} ${priority:+priority "$priority"} && { [ -z "$body" ] || cat -- "$body"; }; } >"$hidden"
    ) &&
      { [ -z "$at" ] || touch -d "@${at%.*}" -- "$hidden"; } && # after the last write, which sets the mtime to now
      { [ -z "$sync" ] || sync -- "$hidden"; } &&
      mv -T -- "$hidden" "$path"
  } || {
    rm -f -- "$hidden"
    echo "spool: the task could not be stored in $directory" >&2
    return 1
  }
  [ -z "$sync" ] || sync -- "$directory" "$spooler" || return 1 # syncs the rename, and a new priority directory
  printf '%s\n' "$path"
}

# The packet: u8 17, u16 size, u8 0, then pairs of ( u16 length, key, u16 length, value ), little endian.
spool_packet() {
  local LC_ALL=C bytes size=0
  for bytes in "$@"; do ((size += 2 + ${#bytes})); done
  printf '\x11' && spool_u16 "$size" && printf '\0' || return
  for bytes in "$@"; do spool_u16 "${#bytes}" && printf '%s' "$bytes" || return; done
}

spool_u16() {
  local escapes
  printf -v escapes '\\x%02x\\x%02x' $(($1 & 255)) $(($1 >> 8))
  printf "$escapes"
}

# spool_check AT PRIORITY [KEY VALUE]…: reports invalid arguments on standard error.
spool_check() {
  local LC_ALL=C at=$1 priority=$2 key value
  local size=$((0 ${at:++ 6 + ${#at}} ${priority:++ 12 + ${#priority}})) # the bytes of at and priority, if they are given
  shift 2
  [[ -z $at || $at =~ ^[0-9]+(\.[0-9]+)?$ ]] || spool_refuse "at must be epoch seconds, got $at" || return
  [[ -z $priority || $priority =~ ^[0-9]+$ ]] || spool_refuse "priority must be digits, got $priority" || return
  (($# % 2 == 0)) || spool_refuse "the key \"${*: -1}\" has no value" || return
  while (($# > 0)); do
    key=$1 value=$2
    shift 2
    case $key in
      '') spool_refuse 'a key is empty' || return ;;
      at | priority | body) spool_refuse "the key \"$key\" is not for the dictionary: give it as an option" || return ;;
    esac
    ((${#key} <= SPOOL_LIMIT)) ||
      spool_refuse "the key \"${key:0:40}\" has ${#key} bytes, the limit is $SPOOL_LIMIT" || return
    ((${#value} <= SPOOL_LIMIT)) ||
      spool_refuse "the value of \"${key:0:40}\" has ${#value} bytes, the limit is $SPOOL_LIMIT: use the body" || return
    ((size += 4 + ${#key} + ${#value}))
  done
  ((size <= SPOOL_LIMIT)) || spool_refuse "the keys and values take $size bytes, the limit is $SPOOL_LIMIT: use the body"
}

spool_refuse() {
  printf 'spool: %s\n' "$1" >&2
  return 1
}
