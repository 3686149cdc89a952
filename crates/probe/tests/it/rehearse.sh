# The stage of a control: runs as root of namespaces that were made for it, and belongs to nobody on the machine.
set -e
folder=$1
shift
mount -t tmpfs -o size=512m,mode=0755 tmpfs "$folder"
ip link set lo up
for address in 203.0.113.10/32 169.254.169.254/32 100.100.100.200/32 168.63.129.16/32; do
  ip addr add "$address" dev lo
done
for address in 2001:db8::10/128 fd00:ec2::254/128; do
  ip -6 addr add "$address" dev lo nodad
done
echo "169.254.169.254 metadata.google.internal" > "$folder/hosts"
mount --bind "$folder/hosts" /etc/hosts
mkdir "$folder/hidden" "$folder/bound"
mount --bind "$folder/hidden" "$folder/bound"
cd "$folder"
export RINGFENCE_LEAK=1
exec 9< "$folder"
exec "$@"
