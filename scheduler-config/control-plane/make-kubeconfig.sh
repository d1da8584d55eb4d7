#!/bin/sh
# Writes a kubeconfig for the service, with a client certificate of the cluster's CA, for clusters
# that were not made by kubeadm:
#   make-kubeconfig.sh https://API-SERVER:6443 ca.crt ca.key kubeconfig
# It holds a private key, so only its owner may read it.
# Needs the CA's key; where that is kept away, use a CertificateSigningRequest
# (docs/install-control-plane.md).
set -eu
umask 077

if [ $# -ne 4 ]; then
    echo "usage: $0 https://API-SERVER:PORT CA-CERTIFICATE CA-KEY FILE" >&2
    exit 2
fi
SERVER=$1
CA_CERTIFICATE=$2
CA_KEY=$3
FILE=$4
case $SERVER in
https://?*) ;;
*)
    echo "$0: $SERVER: the server must begin with https://, such as https://API-SERVER:6443" >&2
    exit 2
    ;;
esac
USER_NAME=${USER_NAME:-runtimeclass-extender}
DAYS=${DAYS:-365}

WORK=$(mktemp -d)
# A new file put in the place of an old one, whose mode might let others read it.
NEW=$(mktemp "$FILE.XXXXXX")
trap 'rm -rf "$WORK" "$NEW"' EXIT

openssl ecparam -name prime256v1 -genkey -noout -out "$WORK/key"
openssl req -new -sha256 -key "$WORK/key" -subj "/CN=$USER_NAME" -out "$WORK/csr"
cat > "$WORK/ext" <<EXT
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = clientAuth
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
EXT
openssl x509 -req -sha256 -in "$WORK/csr" -CA "$CA_CERTIFICATE" -CAkey "$CA_KEY" \
    -set_serial "0x$(openssl rand -hex 16)" -days "$DAYS" -extfile "$WORK/ext" \
    -out "$WORK/crt" 2> "$WORK/log" || { cat "$WORK/log" >&2; exit 1; }

cat > "$NEW" <<KUBECONFIG
apiVersion: v1
kind: Config
clusters:
  - name: kubernetes
    cluster:
      server: $SERVER
      certificate-authority-data: $(openssl base64 -A -in "$CA_CERTIFICATE")
users:
  - name: $USER_NAME
    user:
      client-certificate-data: $(openssl base64 -A -in "$WORK/crt")
      client-key-data: $(openssl base64 -A -in "$WORK/key")
contexts:
  - name: $USER_NAME@kubernetes
    context: {cluster: kubernetes, user: $USER_NAME}
current-context: $USER_NAME@kubernetes
KUBECONFIG
mv -f "$NEW" "$FILE"
openssl x509 -in "$WORK/crt" -noout -enddate |
    sed "s|^notAfter=|wrote $FILE: user $USER_NAME at $SERVER, valid until |"
