#!/bin/sh
# What VMware Tools do by themselves: report the machine's name and addresses to the host, and follow the host's clock.
while :; do
	addresses=$(ip -o -4 address show scope global up 2>/dev/null | while read -r _ _ _ address _; do printf '%s ' "${address%/*}"; done)
	if now=$(/usr/local/bin/vmware-rpctool "tools $(cat /proc/sys/kernel/hostname) $addresses" 2>/dev/null); then
		behind=$((now - $(date +%s)))
		[ "$behind" -lt 60 ] || date -s "@$now" >/dev/null
	fi
	sleep 10
done
