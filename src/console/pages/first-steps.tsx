/** A fresh service leads by the hand to its first certificate. */

import { useEffect, useState } from 'preact/hooks'
import { can, type Output } from '../api.ts'
import { Copyable, Ready } from '../components/basics.tsx'
import { href } from '../router.ts'
import { useApi } from '../use-api.ts'
import type { ListedCertificate } from './certificates.tsx'
import { directoryUrlOf } from './client-commands.ts'

/** The root certificate of `npm start`, whose files are in the checkout (`src/dev/run.ts`). */
const DEVELOPMENT_ROOT = /^(.*)\/ca\/intermediate(?:[\w-]*)\.pem$/

/** @param newest the newest certificate of an account; undefined while there is none */
export function FirstSteps({ newest }: { newest: ListedCertificate | undefined }) {
  const [seen, setSeen] = useState<'none' | ListedCertificate>()
  useEffect(
    () => setSeen((before) => (newest === undefined ? 'none' : before === 'none' ? newest : before)),
    [newest?.id],
  )
  if (newest === undefined) return <Guide />
  return typeof seen === 'object' && <Arrived certificate={seen} />
}

/** The guide does not vanish without a word when the certificate is there. */
const Arrived = ({ certificate: { serial_number, san_values } }: { certificate: ListedCertificate }) => (
  <p class="bar good" role="status">
    <span>
      The first certificate is here:{' '}
      <a href={href(`/certificates/${serial_number}`)}>{san_values[0] ?? serial_number}</a>
    </span>
  </p>
)

function Guide() {
  const loaded = useApi('getSettings', {})
  return (
    <section class="empty" aria-label="The first certificate">
      <h2>The first certificate</h2>
      <p>No client has got a certificate yet. In three steps the first one arrives here.</p>
      <Ready loaded={loaded}>{({ settings }) => <Steps settings={settings} />}</Ready>
    </section>
  )
}

function Steps({ settings }: Pick<Output<'getSettings'>, 'settings'>) {
  const setting = (key: string) => settings.find((one) => one.key === key)?.value
  const directory = directoryUrlOf(settings)
  const folder = DEVELOPMENT_ROOT.exec(String(setting('ca.internal.root_cert_path') ?? ''))?.[1]
  const port = String(setting('challenges.http01.port') ?? 80)
  return (
    <>
      <h3>1. Let a client in</h3>
      <p>
        {setting('acme.eab_required') === true
          ? 'Clients register with a key that you hand out (external account binding).'
          : 'Any client may register with this service: there is nothing to do.'}
      </p>
      {can('createEabCredential') && (
        <p>
          <a href={href('/eab')}>Create an EAB credential; its page has ready command lines</a>
        </p>
      )}
      <h3>2. Run a client</h3>
      <p>
        Directory of this service: <Copyable text={directory} />
      </p>
      <p>
        {folder === undefined ? 'On the host that serves the name:' : 'On this machine, in the folder of the checkout:'}
      </p>
      <Copyable block text={folder === undefined ? command(directory) : developmentCommand(directory, folder, port)} />
      {folder === undefined && (
        <p class="quiet">Where the root certificate of this CA is not trusted yet, give its file to the client.</p>
      )}
      <h3>3. Watch it arrive</h3>
      <p role="status">Waiting for the first certificate. This page checks every five seconds.</p>
    </>
  )
}

const command = (directory: string) =>
  `certbot certonly --standalone --server ${directory} --agree-tos --register-unsafely-without-email -d host.example.com`

const developmentCommand = (directory: string, folder: string, port: string) =>
  [
    `REQUESTS_CA_BUNDLE=${folder}/ca/root.pem certbot certonly \\`,
    `  --standalone --http-01-port ${port} -n -d demo.test \\`,
    `  --server ${directory} --agree-tos --register-unsafely-without-email \\`,
    `  --config-dir ${folder}/certbot --work-dir ${folder}/certbot \\`,
    `  --logs-dir ${folder}/certbot`,
  ].join('\n')
