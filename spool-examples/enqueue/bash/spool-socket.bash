# Sends tasks to the socket of spoold or uWSGI. Source spool.bash first. TCP needs nothing more, unix sockets need socat.
#
#   source spool.bash; source spool-socket.bash
#   spool_send -a $(($(date +%s) + 60)) -p 5 host:3031 to joe

# spool_send [-a AT] [-p PRIORITY] [-s SPOOLER] [-b FILE] [-t SECONDS] ADDRESS [KEY VALUE]…: sends one task, and returns
# when the server has stored it.
#
#   ADDRESS     host:port or /path.sock
#   -s SPOOLER  which of the server's spool directories; by default the first one
#   -b FILE     the body; only spoold accepts one over a socket, uWSGI silently drops it
#   -t SECONDS  to wait for the answer; by default 10
#
# Returns 64 for invalid arguments, before anything is sent, and 1 if the server did not confirm that it has stored the task.
spool_send() {
  local LC_ALL=C OPTIND=1 OPTION at='' priority='' spooler='' body='' seconds=10 size
  while getopts a:p:s:b:t: OPTION; do
    case $OPTION in
      a) at=$OPTARG ;; p) priority=$OPTARG ;; s) spooler=$OPTARG ;; b) body=$OPTARG ;; t) seconds=$OPTARG ;;
      *) return 64 ;;
    esac
  done
  shift $((OPTIND - 1))
  (($# > 0)) || spool_refuse 'the address is missing' || return 64
  local address=$1
  shift
  [ -z "$spooler" ] || set -- "$@" spooler "$spooler"
  if [ -n "$body" ]; then
    size=$(stat -L -c %s -- "$body") || return 64
    set -- "$@" CONTENT_LENGTH "$size" # the packet itself has no field for the size of the body
  fi
  spool_check "$at" "$priority" "$@" || return 64
  set -- "$@" ${at:+at "$at"} ${priority:+priority "$priority"}

  local answer
  answer=$(spool_exchange "$@" | od -An -tx1) || : # does not fail under set -e, because the answer is checked below
  case ${answer// /} in
    ff000001) return 0 ;;
    ff000000) echo "spool: $address did not store the task: see its log (is the spooler one of its own? is the disk full?)" >&2 ;;
    '') echo "spool: $address did not answer: its buffer-size may be smaller than this task, or it has no spooler" >&2 ;;
    *) echo "spool: $address does not speak the uwsgi protocol, it answered$answer" >&2 ;;
  esac
  return 1
}

# spool_exchange [KEY VALUE]…: sends packet and body to $address, and prints the answer.
spool_exchange() {
  local connection
  case $address in
    /*)
      { spool_packet "$@" && { [ -z "$body" ] || cat -- "$body"; }; } |
        timeout "$seconds" socat -t "$seconds" - "UNIX-CONNECT:$address"
      ;;
    *)
      local host=${address%:*}
      host=${host#[} host=${host%]}
      exec {connection}<>"/dev/tcp/$host/${address##*:}" || return
      # in a subshell: a refusal may arrive before the whole body has been sent, and has to be read
      (spool_packet "$@" && { [ -z "$body" ] || cat -- "$body"; }) >&"$connection"
      timeout "$seconds" head -c 4 <&"$connection"
      ;;
  esac
}
