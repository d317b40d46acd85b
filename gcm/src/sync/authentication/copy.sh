# Keeps the file of the API server like that of the ConfigMap, which the kubelet changes in place. Arguments: from=FILE to=FILE
set -u
umask 077
from=${1#from=}
to=${2#to=}
trap 'exit 0' TERM INT
while :; do
  if [ -s "$from" ] && [ "$(cat "$from")" != "$(cat "$to" 2>/dev/null)" ]; then
    # An API server that reads while this is written must not see half of it.
    cat "$from" >"$to.new" && mv -f "$to.new" "$to" && echo "copied to $to"
  fi
  sleep 2 &
  wait $!
done
