#!/bin/sh
# growth.sh CONCORD PLOT DIR: how cost grows, one axis at a time. Takes about 15 minutes; run it alone on the machine. Measures go to DIR as JSON, a
# page of plots for each axis to DIR/plots. FOR is how long each point is measured, AXES which ones are.
set -e
concord=$1 plot=$2 dir=$3
mkdir -p "$dir"
axis() { # axis NAME X BY: draws what was measured under that name
	"$plot" -title "How cost grows: $1" -x "$2" -by "$3" -o "$dir/plots/$1" "$dir/$1"-*.json
}
# Measure NAME-POINT with flags of concord bench.
measure() {
	name=$1
	shift
	"$concord" bench --warmup 500ms --duration "${FOR:-1500ms}" --connections 12 --dir "$dir" -o json "$@" >"$dir/$name.json"
}
for a in ${AXES:-keys values clients nodes watchers leases}; do
	rm -f "$dir/$a"-*.json
	case $a in
	keys)
		for nodes in 3 5; do
			for keys in 10000 100000 1000000; do measure "keys-$nodes-$keys" --nodes $nodes --workloads put,get --clients 256 --keys $keys; done
		done
		for keys in 10000 100000 1000000 10000000; do measure "keys-1-$keys" --nodes 1 --workloads put,get --clients 256 --keys $keys; done
		axis keys keys nodes
		;;
	values)
		for bytes in 16 256 4096 65536; do measure "values-$bytes" --nodes 3 --workloads put,get --clients 64,256 --keys 1000 --value-bytes $bytes; done
		axis values value-bytes clients
		;;
	clients)
		measure clients-3 --nodes 3 --workloads put,get,get-stale,txn --clients 1,10,100,1000,5000
		axis clients clients nodes
		;;
	nodes)
		for nodes in 1 3 5; do measure "nodes-$nodes" --nodes $nodes --workloads put,get,txn --clients 1,64,1000; done
		axis nodes nodes clients
		;;
	watchers)
		for nodes in 1 3; do measure "watchers-$nodes" --nodes $nodes --workloads watch --rate 100 --clients 10,100,1000,10000; done
		for watchers in 1000 10000 100000; do measure "watchers-idle-$watchers" --nodes 1 --workloads watch-idle --clients $watchers; done
		axis watchers watchers nodes
		;;
	leases)
		for leases in 10000 100000 1000000; do measure "leases-$leases" --workloads lease-storm --clients $leases; done
		axis leases leases nodes
		;;
	*)
		echo "AXES: no axis is called $a" >&2
		exit 2
		;;
	esac
done
