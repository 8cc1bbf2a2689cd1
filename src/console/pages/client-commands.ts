/**
 * Command lines and files of ACME clients for a binding credential (RFC 8555 §7.3.4), and the hand-over sheet with them
 * as one text. Pure.
 */

interface Binding {
  directoryUrl: string
  kid: string
  /** The key in base64url. A word stands in the place of a missing one. */
  hmacKey?: string | undefined
  /** The name of the first certificate. An example stands in the place of a missing one. */
  name?: string | undefined
  /** The root, for a client that takes it and not its file. */
  rootPem?: string | undefined
}

interface ClientCommands {
  client: string
  /** The place of the text, such as a shell or the name of a file. */
  place: string
  text: string
}

const EXAMPLE_NAME = 'host.example.com'
/** Stands for the key, which is shown once. */
export const KEY_WORD = 'HMAC_KEY'
/** The file where the commands expect the roots of the CA. */
export const ROOT_FILE = '/etc/ssl/chancery-root.pem'

/** Every text may be pasted as it is: nothing in a kid ends its quotes. */
export function clientCommands({ directoryUrl, kid, hmacKey = KEY_WORD, ...more }: Binding): ClientCommands[] {
  const binding = { directoryUrl, kid, hmacKey, name: more.name ?? EXAMPLE_NAME, rootPem: more.rootPem }
  return [
    { client: 'certbot', place: 'shell', text: certbot(binding) },
    { client: 'lego', place: 'shell', text: lego(binding) },
    { client: 'acme.sh', place: 'shell', text: acmeSh(binding) },
    ...(isPlainForCaddy(kid) ? [{ client: 'Caddy', place: 'Caddyfile', text: caddyfile(binding) }] : []),
    { client: 'Traefik', place: 'traefik.yaml', text: traefik(binding) },
    { client: 'cert-manager', place: 'issuer.yaml', text: certManager(binding) },
    { client: 'dehydrated', place: 'shell', text: dehydrated(binding) },
  ]
}

type Full = Required<Omit<Binding, 'rootPem' | 'hmacKey' | 'name'>> & {
  hmacKey: string
  name: string
  rootPem: string | undefined
}

/** POSIX shell: only an apostrophe ends the quotes. */
export const shellQuoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`
const quoted = ({ directoryUrl, kid, hmacKey, name }: Full) => [directoryUrl, kid, hmacKey, name].map(shellQuoted)

function certbot(binding: Full): string {
  const [url, kid, key, name] = quoted(binding)
  return `REQUESTS_CA_BUNDLE=${ROOT_FILE} certbot certonly --standalone \\
  --server ${url} \\
  --eab-kid ${kid} --eab-hmac-key=${key} \\
  --agree-tos --register-unsafely-without-email -d ${name}`
}

function lego(binding: Full): string {
  const [url, kid, key, name] = quoted(binding)
  return `LEGO_CA_CERTIFICATES=${ROOT_FILE} lego --server ${url} \\
  --eab --kid ${kid} --hmac ${key} \\
  --accept-tos --email admin@example.com --http --domains ${name} run`
}

function acmeSh(binding: Full): string {
  const [url, kid, key, name] = quoted(binding)
  return `acme.sh --register-account --server ${url} --ca-bundle ${ROOT_FILE} \\
  --eab-kid ${kid} --eab-hmac-key=${key}
acme.sh --issue --server ${url} --ca-bundle ${ROOT_FILE} --standalone -d ${name}`
}

/** Its configuration is a shell script. */
function dehydrated(binding: Full): string {
  const [url, kid, key, name] = quoted(binding)
  return `cat > /etc/dehydrated/conf.d/chancery.sh <<'END'
CA=${url}
CURL_OPTS="--cacert ${ROOT_FILE}"
EAB_KID=${kid}
EAB_HMAC_KEY=${key}
WELLKNOWN=/var/www/acme
END
dehydrated --register --accept-terms
dehydrated --cron --domain ${name}`
}

/** A Caddyfile has no form for a backslash before a quote, and takes `{$…}` for a variable, in quotes, too. */
const isPlainForCaddy = (kid: string) => !/["\\{]/.test(kid)

const caddyfile = ({ directoryUrl, kid, hmacKey, name }: Full) => `{
	acme_ca "${directoryUrl}"
	acme_ca_root ${ROOT_FILE}
	acme_eab {
		key_id "${kid}"
		mac_key "${hmacKey}"
	}
}

${name} {
	respond "hello"
}
`

/** A JSON string is a YAML one. */
const traefik = ({ directoryUrl, kid, hmacKey }: Full) => `entryPoints:
  web:
    address: ":80"
  websecure:
    address: ":443"
certificatesResolvers:
  chancery:
    acme:
      storage: /var/lib/traefik/acme.json
      caServer: ${JSON.stringify(directoryUrl)}
      caCertificates: [${ROOT_FILE}]
      eab:
        kid: ${JSON.stringify(kid)}
        hmacEncoded: ${JSON.stringify(hmacKey)}
      httpChallenge:
        entryPoint: web
`

const certManager = ({ directoryUrl, kid, hmacKey, rootPem }: Full) => `apiVersion: v1
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
    ${rootPem ? `caBundle: ${btoa(rootPem)}` : '# caBundle: base64 of the root certificate in PEM'}
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

/** A shell command that writes the roots where the commands of the clients expect them. */
export const saveRoots = (pem: string): string => `cat > ${ROOT_FILE} <<'END'\n${pem.trimEnd()}\nEND`

/** The first name that a certificate can be for, of what is allowed: a name of a domain, and no network. */
export function firstName(allowed: readonly string[]): string | undefined {
  const name = allowed.find((one) => /^(?:\*\.)?[^/:*]*[a-z][^/:*]*$/i.test(one))
  return name?.replace(/^\*\./, 'host.')
}

/** Reads the URL from the settings that the Admin API shows. */
export function directoryUrlOf(settings: readonly { key: string; value?: unknown }[]): string {
  const text = (key: string) => String(settings.find((one) => one.key === key)?.value ?? '')
  return `${text('server.external_url').replace(/\/$/, '')}${text('api.base_path')}${text('acme.paths.directory')}`
}

export interface HandOver {
  title: string
  directoryUrl: string
  kid: string
  /** Undefined once the user has closed it. */
  hmacKey: string | undefined
  roots: readonly { subject: string; fingerprint: string; pem: string }[]
  rootsUrl: string | null
  commands: readonly ClientCommands[]
}

export function handOverText({ title, directoryUrl, kid, hmacKey, roots, rootsUrl, commands }: HandOver): string {
  return [
    `${title}\n${'='.repeat(title.length)}`,
    [
      `Directory URL:   ${directoryUrl}`,
      `Key identifier:  ${kid}`,
      `HMAC key:        ${hmacKey ?? 'not in this text; it was shown once'}`,
    ].join('\n'),
    roots.length > 0
      ? `1. Save the root certificate of the CA as ${ROOT_FILE}\n\n${saveRoots(pemOf(roots))}`
      : `1. Save the root certificate of the CA as ${ROOT_FILE}. Ask the operator for it.`,
    ...roots.map(({ subject, fingerprint }) => `${subject}\nSHA-256 ${fingerprint}`),
    ...(rootsUrl === null ? [] : [`It is also at ${rootsUrl}\n${CHECK_ROOT}`]),
    '2. Register the client, with its first certificate',
    ...commands.map(({ client, place, text }) => `--- ${client} (${place})\n\n${text.trimEnd()}`),
  ]
    .join('\n\n')
    .concat('\n')
}

export const pemOf = (roots: HandOver['roots']): string => roots.map(({ pem }) => pem).join('')

/** Prints the fingerprint of what was fetched, for the comparison. */
export const CHECK_ROOT = `openssl x509 -in ${ROOT_FILE} -noout -fingerprint -sha256`
