#!/bin/sh
# Makes the webhook's certificate, and its CA when there is none yet, under generated/.
# Run it again before the certificate ends (DAYS) and apply again; the CA stays, so that
# kube-apiserver trusts the old and the new certificate alike.
set -eu
umask 077

DAYS=${DAYS:-365}
CA_DAYS=${CA_DAYS:-3650}
HOST=runtimeclass-webhook.runtimeclass-webhook.svc
OUT=${1:-$(dirname "$0")/generated}

mkdir -p "$OUT"
cd "$OUT"

if [ ! -f ca.key ]; then
    openssl ecparam -name prime256v1 -genkey -noout -out ca.key
    cat > ca.cnf <<CNF
[req]
distinguished_name = name
x509_extensions = ca
prompt = no
[name]
CN = runtimeclass-webhook-ca
[ca]
basicConstraints = critical, CA:TRUE, pathlen:0
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
CNF
    openssl req -x509 -new -sha256 -key ca.key -days "$CA_DAYS" -config ca.cnf -out ca.crt
    rm ca.cnf
fi

openssl ecparam -name prime256v1 -genkey -noout -out new.key
openssl req -new -sha256 -key new.key -subj "/CN=$HOST" -out new.csr
cat > new.ext <<EXT
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = serverAuth
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
subjectAltName = DNS:$HOST
EXT
openssl x509 -req -sha256 -in new.csr -CA ca.crt -CAkey ca.key -CAcreateserial \
    -days "$DAYS" -extfile new.ext -out new.crt 2> openssl.log || { cat openssl.log >&2; exit 1; }
openssl verify -CAfile ca.crt new.crt > /dev/null
mv new.key tls.key
mv new.crt tls.crt
rm new.csr new.ext openssl.log

cat > kustomization.yaml <<KUSTOMIZATION
# Written by make-certificate.sh: which certificate kube-apiserver trusts.
apiVersion: kustomize.config.k8s.io/v1alpha1
kind: Component
patches:
  - target: {kind: (Mutating|Validating)WebhookConfiguration}
    patch: |
      - op: add
        path: /webhooks/0/clientConfig/caBundle
        value: $(openssl base64 -A -in ca.crt)
KUSTOMIZATION
rm -f ca-bundle.yaml

openssl x509 -in tls.crt -noout -enddate | sed "s|^notAfter=|$OUT/tls.crt: valid until |"
