#!/bin/sh
# Called once for each task: the packet is JSON on standard input, its values are in SPOOL_…, the body is on descriptor 3.
echo "hello $SPOOL_to, your letter has $(wc -c <&3) bytes"
[ "$SPOOL_to" = nobody ] && exit 75 # run it again later
exit 0 # done: the file is removed
