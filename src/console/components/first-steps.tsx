/** A fresh service leads by the hand to its first certificate. */

import { useEffect, useState } from 'preact/hooks'
import { can, type Output, useApi } from '../api.ts'
import { href } from '../router.ts'
import { WORDS } from '../words.ts'
import { Copyable, Ready } from './basics.tsx'
import type { ListedCertificate } from './certificates.tsx'

const words = WORDS.guide

/** Of `npm start`, whose files lie in the checkout (`src/dev/run.ts`). */
const DEVELOPMENT_ROOT = /^(.*)\/ca\/intermediate(?:[\w-]*)\.pem$/

/** @param newest undefined while there is no certificate */
export function FirstSteps({ newest }: { newest: ListedCertificate | undefined }) {
  const [seen, setSeen] = useState<'none' | ListedCertificate>()
  useEffect(
    () => setSeen((before) => (newest === undefined ? 'none' : before === 'none' ? newest : before)),
    [newest?.id],
  )
  if (newest === undefined) return <Guide />
  return typeof seen === 'object' && <Arrived certificate={seen} />
}

/** What was waited for is not taken away without a word. */
const Arrived = ({ certificate: { serial_number, san_values } }: { certificate: ListedCertificate }) => (
  <p class="bar good" role="status">
    <span>
      {words.arrived} <a href={href(`/certificates/${serial_number}`)}>{san_values[0] ?? serial_number}</a>
    </span>
  </p>
)

function Guide() {
  const loaded = useApi('getSettings', {})
  return (
    <section class="empty" aria-label={words.title}>
      <h2>{words.title}</h2>
      <p>{words.intro}</p>
      <Ready loaded={loaded}>{({ settings }) => <Steps settings={settings} />}</Ready>
    </section>
  )
}

function Steps({ settings }: Pick<Output<'getSettings'>, 'settings'>) {
  const setting = (key: string) => settings.find((one) => one.key === key)?.value
  const base = String(setting('server.external_url') ?? '').replace(/\/$/, '')
  const directory = `${base}${String(setting('api.base_path') ?? '')}${String(setting('acme.paths.directory') ?? '')}`
  const folder = DEVELOPMENT_ROOT.exec(String(setting('ca.internal.root_cert_path') ?? ''))?.[1]
  const port = String(setting('challenges.http01.port') ?? 80)
  return (
    <>
      <h3>{words.step1}</h3>
      <p>{setting('acme.eab_required') === true ? words.eab : words.open}</p>
      {can('createEabCredential') && (
        <p>
          <a href={href('/eab')}>{words.eabLink}</a>
        </p>
      )}
      <h3>{words.step2}</h3>
      <p>
        {words.directory}: <Copyable text={directory} />
      </p>
      <p>{folder === undefined ? words.elsewhere : words.development}</p>
      <Copyable block text={folder === undefined ? command(directory) : developmentCommand(directory, folder, port)} />
      {folder === undefined && <p class="quiet">{words.trust}</p>}
      <h3>{words.step3}</h3>
      <p role="status">{words.watching}</p>
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
