# Installs the packages in /trial, uses and removes them, and checks that nothing is left. Run it as root in a fresh Debian or Ubuntu.
set -eu
cd /trial
export DEBIAN_FRONTEND=noninteractive

# Lists all files, except those of apt and dpkg, and backups of the files of users.
everything() {
  find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /run -o -path /tmp -o -path /trial -o -path /var/cache -o -path /var/log \
    -o -path /var/lib/apt -o -path /var/lib/dpkg -o -path /var/lib/systemd/deb-systemd-helper-enabled \) -prune -o -print |
    grep -v '^/etc/.*-$' | sort
}

everything >before
cp /etc/passwd passwd
apt-get install -q -y --no-install-recommends ./*.deb >log 2>&1 || { cat log; exit 1; }

systemd-analyze verify --man=no /lib/systemd/system/statestored.service
systemctl is-enabled --quiet statestored
systemd-analyze security --offline=yes --threshold=20 --no-pager statestored.service | tail -n 1

# An engine instead of the folder, as a comment of the file shows.
for storage in etcd://127.0.0.1:1/trial redis://127.0.0.1:1; do
  sed "s#^data-dir = .*#storage = \"$storage\"#" /etc/statestored/statestored.toml >cluster.toml
  statestored --config cluster.toml --check
done

# The command of the service, with a free port.
install -d -o statestored -g statestored -m 700 /var/lib/statestored
mkfifo ready
setpriv --reuid=statestored --regid=statestored --clear-groups --no-new-privs \
  statestored --config /etc/statestored/statestored.toml --listen tcp://127.0.0.1:0 \
  --http http://127.0.0.1:0 >ready 2>log &
server=$!
exec 3<ready
read -r line <&3
read -r http <&3
statestore health --admin "${http#http on }"
STATESTORE_URL="mqtt://${line#listening on tcp://}"
export STATESTORE_URL

sed "s#\$url#$STATESTORE_URL#; s#mqtt://127.0.0.1:1883#$STATESTORE_URL#" program.c >main.c
# shellcheck disable=SC2046
gcc main.c $(pkg-config --cflags --libs statestore) -o program
./program
[ "$(statestore get greeting)" = hello ]
kill "$server"
wait "$server"
mkfifo listening
statestore-dapr --folder /trial/sockets >listening 2>log &
component=$!
exec 4<listening
read -r line <&4
[ "$line" = "listening on /trial/sockets/statestore.sock" ]
kill "$component"
wait "$component"
# Checks the packages, because a minimal system can be configured not to unpack manual pages.
for page in man1/statestore.1.gz man1/statestore-lock.1.gz man8/statestored.8.gz man8/statestore-dapr.8.gz; do
  dpkg-query -S "/usr/share/man/$page" >/dev/null
done
bash -c 'source /usr/share/bash-completion/completions/statestore && complete -p statestore' >/dev/null

# shellcheck disable=SC2046
apt-get purge -q -y $(dpkg-query --show --showformat '${Package} ' '*statestore*') >log 2>&1 || { cat log; exit 1; }
everything >after
diff before after
diff passwd /etc/passwd
echo "nothing is left"
