#!/bin/sh
# Reports how the first boot of this node went, through VMware's guestinfo. cloud-init runs it as vendordata, before
# the commands of the userdata; it starts itself in the background, and waits there for their end.
#
#   guestinfo.vmservice.bootstrap.condition   true, or false,REASON,MESSAGE
#   guestinfo.vmservice.bootstrap.log         after a failure: the end of the output, without secrets
#
# It changes nothing of the boot. Where the guest has no tool for guestinfo it does nothing.
set -u
export LC_ALL=C
export PATH="${PATH:-}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

root=${BOOTSTRAP_ROOT:-}
interval=${BOOTSTRAP_INTERVAL:-2}
slow=${BOOTSTRAP_SLOW:-600}
limit=${BOOTSTRAP_LIMIT:-21600}
succeeded=$root/run/cluster-api/bootstrap-success.complete
finished=$root/run/cloud-init/result.json
output=$root/var/log/cloud-init-output.log
# Of this instance: an image that is captured from a node says nothing of what is made from it.
saved=$root/var/lib/cloud/instance/bootstrap-condition
at_every_boot=$root/var/lib/cloud/scripts/per-boot

has_guestinfo() {
    command -v vmware-rpctool >/dev/null 2>&1 || command -v vmtoolsd >/dev/null 2>&1
}

set_guestinfo() {
    for try in 1 2 3; do
        if command -v vmware-rpctool >/dev/null 2>&1; then
            vmware-rpctool "info-set guestinfo.vmservice.bootstrap.$1 $2" >/dev/null 2>&1 && return
        else
            vmtoolsd --cmd "info-set guestinfo.vmservice.bootstrap.$1 $2" >/dev/null 2>&1 && return
        fi
        [ "$try" = 3 ] || sleep "$interval"
    done
}

report() {
    set_guestinfo condition "$1"
    { mkdir -p "${saved%/*}" && printf '%s\n' "$1" >"$saved"; } 2>/dev/null
}

# The end of the boot's output as printable lines, without anything that may be a secret. What is no pattern of a secret
# and might be one goes too: long words of letters of both cases, and long hexadecimal numbers.
clean_output() {
    if [ -f "$output" ]; then
        tail -c 262144 "$output"
    else
        journalctl -b -o cat -n 400 -u cloud-final.service -u cloud-init-main.service 2>/dev/null
    fi | tr '\r' '\n' | awk '
        function repeated(what, times,    all) { while (times-- > 0) all = all what; return all }
        function without_words(line,    kept, word) {
            while (match(line, word_of_32)) {
                word = substr(line, RSTART, RLENGTH)
                if (word ~ /[A-Z]/ && word ~ /[a-z]/ || word ~ /^[0-9A-Fa-f]+$/) word = removed
                kept = kept substr(line, 1, RSTART - 1) word
                line = substr(line, RSTART + RLENGTH)
            }
            return kept line
        }
        function without_values(line,    kept, end, rest, value) {
            while (match(tolower(line), named)) {
                end = RSTART + RLENGTH
                kept = kept substr(line, 1, end - 1)
                rest = substr(line, end)
                line = match(rest, /^[^ "\047,;]+/) ? removed substr(rest, RLENGTH + 1) : rest
            }
            return kept line
        }
        BEGIN {
            removed = "[removed]"
            word_of_32 = repeated("[A-Za-z0-9+/=]", 32) "[A-Za-z0-9+/=]*"
            token = repeated("[a-z0-9]", 6) "[.]" repeated("[a-z0-9]", 16)
            named = "(--[a-z-]*(token|key|password)[= ]+|(token|passwd|password|passphrase|secret)[a-z0-9_-]*[\"\047]?[:=] *[\"\047]?|(bearer|basic) +)"
        }
        /-----BEGIN/ { secret = 1 }
        secret && !/-----END/ { next }
        # What the tail begins in the middle of.
        /-----END/ { if (!secret) lines = 0; secret = 0; all[++lines] = removed; next }
        {
            gsub(/\033\[[0-9;?]*[A-Za-z]/, "")
            gsub(/[^ -~]/, " ")
            gsub(/eyJ[A-Za-z0-9_-]*([.][A-Za-z0-9_-]*)*/, removed)
            gsub(/:\/\/[^ \/@]*@/, "://" removed "@")
            gsub(token, removed)
            line = without_values(without_words($0))
            sub(/^ +/, "", line)
            sub(/ +$/, "", line)
            if (line != "") all[++lines] = substr(line, 1, 600)
        }
        END {
            for (from = lines + 1; from > 1; from--) {
                size += length(all[from - 1]) + 1
                if (size > 4000) break
            }
            for (; from <= lines; from++) print all[from]
        }'
}

# What went wrong, in one line: what the preflight checks found, else the step that failed, else the last line.
cause_of() {
    awk '
        /^Cloud-init v|^ci-info|\.py\[|^To see the stack trace/ { next }
        /\[ERROR [^]]*\]:/ {
            sub(/^.*\[ERROR [^]]*\]: */, "")
            if (!seen[$0]++) found = found (found == "" ? "" : "; ") $0
            next
        }
        { sub(/^[EFIW][0-9]+ [0-9:.]+ +[0-9]+ [^ ]+\] /, "") }
        /no space left on device|is not yet valid|has expired|modprobe: FATAL|FATAL: Module/ { hint = $0 }
        /-check\] .*not healthy/ { health = $0; sub(/^.*-check\] */, "", health) }
        /^(error: )?error execution phase|^error: / { step = $0 }
        { last = $0 }
        END {
            text = found != "" ? found : step != "" ? step : last
            sub(/^error: /, "", text)
            # What explains a long text is not cut off with its end.
            if (found == "" && health != "" && index(text, health) == 0) more = "; " substr(health, 1, 150)
            if (hint != "" && index(text, hint) == 0) more = more "; " substr(hint, 1, 150)
            print substr(text, 1, 400 - length(more)) more
        }'
}

# What makes kubeadm fail without a word of it, a line each: full disks (etcd alone takes 64 MiB at once), and modules
# that the kernel lacks.
shortages() {
    df -P -k "$root/" "$root/var/lib/containerd" "$root/var/lib/etcd" 2>/dev/null |
        awk 'NR > 1 && $4 < 102400 && !seen[$6]++ { print "no space left on device: " $6 }'
    for module in overlay br_netfilter; do
        modprobe -n "$module" 2>&1 | grep -o "Module $module not found"
    done
}

# What was under way, by the files that Cluster API has written for kubeadm.
stage() {
    if [ -e "$root/run/kubeadm/kubeadm.yaml" ]; then
        echo "kubeadm init"
    elif [ -e "$root/run/kubeadm/kubeadm-join-config.yaml" ]; then
        echo "kubeadm join"
    else
        echo "the bootstrap"
    fi
}

report_failure() {
    log=$(clean_output)
    cause=$(printf '%s\n' "$log" | cause_of)
    lacks=$(shortages | awk '{ printf "%s%s", (NR > 1 ? "; " : ""), $0 }')
    [ -z "$lacks" ] || cause="${cause:+$cause; }$lacks"
    [ -z "$log" ] || set_guestinfo log "$log"
    report "false,BootstrapFailed,$(stage) failed${cause:+: $cause}"
}

report_slowness() {
    last=$(clean_output | tail -n 1)
    report "false,BootstrapInProgress,$(stage) has not ended after $1 s${last:+. Last output: $last}"
}

watch_boot() {
    waited=0 is_slow=
    while [ "$waited" -lt "$limit" ]; do
        # In this order: success is noted before cloud-init ends.
        ended=
        [ ! -e "$finished" ] || ended=yes
        if [ -e "$succeeded" ]; then
            report true
            return
        fi
        if [ -n "$ended" ]; then
            report_failure
            return
        fi
        if [ -z "$is_slow" ] && [ "$waited" -ge "$slow" ]; then
            is_slow=yes
            report_slowness "$waited"
        fi
        sleep "$interval"
        waited=$((waited + interval))
    done
}

has_guestinfo || exit 0
case "${1:-}:${0##*/}" in
watch:*)
    watch_boot
    ;;
*:bootstrap-report)
    # A later boot: what was reported is gone where the VM was off.
    [ ! -f "$saved" ] || set_guestinfo condition "$(cat "$saved")"
    ;;
*)
    cp "$0" "$at_every_boot/bootstrap-report" 2>/dev/null && chmod 0755 "$at_every_boot/bootstrap-report"
    sh "$0" watch </dev/null >/dev/null 2>&1 &
    ;;
esac
exit 0
