/** Command lines and files of ACME clients for a binding credential (RFC 8555 §7.3.4). Pure. */

interface Binding {
  directoryUrl: string
  kid: string
  /** base64url. */
  hmacKey: string
}

interface ClientCommands {
  client: string
  /** Where the text goes, such as a shell or the name of a file. */
  place: string
  text: string
}

const NAME = 'host.example.com'
const ROOT = '/path/to/root.pem'

/** Every text may be pasted as it is: nothing in a kid ends its quotes. */
export function clientCommands(binding: Binding): ClientCommands[] {
  const [url, kid, key] = [binding.directoryUrl, binding.kid, binding.hmacKey].map(shellQuoted)
  return [
    {
      client: 'certbot',
      place: 'shell',
      text: `REQUESTS_CA_BUNDLE=${ROOT} certbot certonly --standalone \\
  --server ${url} \\
  --eab-kid ${kid} --eab-hmac-key=${key} \\
  --agree-tos --register-unsafely-without-email -d ${NAME}`,
    },
    {
      client: 'lego',
      place: 'shell',
      text: `LEGO_CA_CERTIFICATES=${ROOT} lego --server ${url} \\
  --eab --kid ${kid} --hmac ${key} \\
  --accept-tos --email admin@example.com --http --domains ${NAME} run`,
    },
    {
      client: 'acme.sh',
      place: 'shell',
      text: `acme.sh --register-account --server ${url} --ca-bundle ${ROOT} \\
  --eab-kid ${kid} --eab-hmac-key=${key}
acme.sh --issue --server ${url} --ca-bundle ${ROOT} --standalone -d ${NAME}`,
    },
    { client: 'Caddy', place: 'Caddyfile', text: caddyfile(binding) },
    { client: 'cert-manager', place: 'issuer.yaml', text: certManager(binding) },
  ]
}

/** POSIX shell: only an apostrophe ends the quotes. */
export const shellQuoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`

/** In a Caddyfile a quote is escaped, and a backslash before anything else is plain. */
const caddyQuoted = (text: string) => `"${text.replaceAll('"', '\\"')}"`

const caddyfile = ({ directoryUrl, kid, hmacKey }: Binding) => `{
	acme_ca ${caddyQuoted(directoryUrl)}
	acme_ca_root ${ROOT}
	acme_eab {
		key_id ${caddyQuoted(kid)}
		mac_key ${caddyQuoted(hmacKey)}
	}
}

${NAME} {
	respond "hello"
}
`

/** A JSON string is a YAML one. */
const certManager = ({ directoryUrl, kid, hmacKey }: Binding) => `apiVersion: v1
kind: Secret
metadata:
  name: acme-eab
  namespace: cert-manager
stringData:
  hmac-key: ${JSON.stringify(hmacKey)}
---
apiVersion: cert-manager.io/v1
kind: ClusterIssuer
metadata:
  name: acme
spec:
  acme:
    server: ${JSON.stringify(directoryUrl)}
    # caBundle: base64 of the root certificate in PEM
    privateKeySecretRef:
      name: acme-account
    externalAccountBinding:
      keyID: ${JSON.stringify(kid)}
      keySecretRef:
        name: acme-eab
        key: hmac-key
    solvers:
      - http01:
          ingress:
            ingressClassName: nginx
`

/** From the settings that the Admin API shows. */
export function directoryUrlOf(settings: readonly { key: string; value?: unknown }[]): string {
  const text = (key: string) => String(settings.find((one) => one.key === key)?.value ?? '')
  return `${text('server.external_url').replace(/\/$/, '')}${text('api.base_path')}${text('acme.paths.directory')}`
}
