/** Issuers with their chains, and the CRLs that they sign. */

import { call, type Output } from '../api.ts'
import { Allowed, Badge, Button, Copyable, Empty, Problem, Ready } from '../components/basics.tsx'
import type { Column } from '../components/columns.tsx'
import { saveFile } from '../components/csv.tsx'
import { useSubmit } from '../components/form.tsx'
import { List } from '../components/list.tsx'
import { Page, tell } from '../components/page.tsx'
import { Table } from '../components/table.tsx'
import { href, type PageProps } from '../router.ts'
import { useApi, useList } from '../use-api.ts'

type Issuer = Output<'listIssuers'>[number]

const saveChain = (fingerprint: string) =>
  call('getIssuerChain', { params: { fingerprint } }).then(
    (pem) => saveFile(`chain-${fingerprint.slice(0, 8)}.pem`, 'application/x-pem-file', pem),
    (error: Error) => tell(error.message, 'bad'),
  )

const COLUMNS: readonly Column<Issuer>[] = [
  {
    head: 'Subject',
    kind: 'wide',
    cell: ({ subject, fingerprint, public_key }) => (
      <>
        {subject} <span class="quiet">{public_key.type}</span>
        <br />
        <code class="quiet">{fingerprint}</code>
      </>
    ),
  },
  {
    head: 'Signs as',
    cell: ({ id, backend }) =>
      (id ?? backend) === null ? <Badge>does not sign now</Badge> : <Badge tone="good">{id ?? backend}</Badge>,
  },
  { head: 'Until', member: 'not_after', kind: 'time' },
  { head: 'Chain', cell: ({ above }) => above.map(({ subject }) => subject).join(' ← ') },
  {
    head: 'Actions',
    kind: 'fixed',
    cell: ({ fingerprint }) => (
      <div class="actions left">
        <Button kind="small" text="Save chain" onClick={() => saveChain(fingerprint)} />
        <a href={href('/certificates', { issuer: fingerprint })}>View certificates</a>
      </div>
    ),
  },
]

const TRUST: readonly (readonly [where: string, command: string])[] = [
  ['Debian, Ubuntu', 'cp root.pem /usr/local/share/ca-certificates/internal-ca.crt && update-ca-certificates'],
  ['Fedora, RHEL', 'cp root.pem /etc/pki/ca-trust/source/anchors/ && update-ca-trust'],
  ['Windows', 'certutil -addstore Root root.pem'],
  ['certbot', 'REQUESTS_CA_BUNDLE=root.pem certbot …'],
  ['lego', 'LEGO_CA_CERTIFICATES=root.pem lego …'],
  ['Fingerprint (SHA-256)', 'openssl x509 -in root.pem -noout -fingerprint -sha256'],
]

export function IssuersPage({ entry }: PageProps) {
  const list = useList('listIssuers', {}, entry)
  return (
    <Page title="Issuers">
      <p class="quiet">
        The CAs that have signed, former ones included. One of another CA signs now where it has issued one of the
        newest 10,000 certificates. Clients have to trust the last one of a chain.
      </p>
      <List
        caption="Issuers"
        list={list}
        columns={COLUMNS}
        rowKey={({ fingerprint }) => fingerprint}
        empty={<Empty title="No issuers yet" />}
      />
      <details>
        <summary>How clients trust the root</summary>
        <p>Save the chain, and give the last certificate of it to the clients, as root.pem:</p>
        {TRUST.map(([where, command]) => (
          <div key={where} class="section">
            <h3>{where}</h3>
            <Copyable text={command} block />
          </div>
        ))}
        <p class="quiet">Compare its fingerprint over a second channel, such as the telephone, before you trust it.</p>
      </details>
    </Page>
  )
}

type Crl = Output<'listCrls'>['lists'][number]

const CRL_COLUMNS: readonly Column<Crl>[] = [
  {
    head: 'Issuer',
    cell: ({ issuer, shard, shards }) => (shards > 1 ? `${issuer}, ${shard + 1} / ${shards}` : issuer),
  },
  { head: 'Number', kind: 'fixed', cell: ({ number }) => <code>{number}</code> },
  { head: 'Entries', member: 'entries', kind: 'number' },
  { head: 'Bytes', member: 'bytes', kind: 'number' },
  { head: 'This update', member: 'this_update', kind: 'instant' },
  { head: 'Next update', member: 'next_update', kind: 'time' },
]

const POLL_MS = 10_000
const REBUILDING = 'The CRLs are being rebuilt. This takes up to 20 seconds, and may continue in the background.'

export function CrlPage() {
  const loaded = useApi('listCrls', {}, { every: POLL_MS })
  const { submit, error, isBusy } = useSubmit(async () => {
    const built = await call('rebuildCrl', {})
    tell(built.error === null ? 'The CRLs are rebuilt.' : built.error, built.error === null ? 'good' : 'bad')
    loaded.reload()
  })
  return (
    <Page
      title="CRL"
      actions={
        <Allowed to="rebuildCrl">
          {loaded.data?.enabled && <Button text="Rebuild now" disabled={isBusy} onClick={submit} />}
        </Allowed>
      }
    >
      {isBusy && (
        <p role="status">
          {REBUILDING} <progress aria-label={REBUILDING} />
        </p>
      )}
      <Problem error={error} />
      <Ready loaded={loaded}>
        {({ enabled, stale, error: obstacle, lists }) =>
          enabled ? (
            <>
              <p>
                {stale ? <Badge tone="bad">stale</Badge> : lists.length > 0 && <Badge tone="good">up to date</Badge>}{' '}
                {obstacle}
              </p>
              <Table
                caption="CRL"
                rows={lists}
                columns={CRL_COLUMNS}
                rowKey={({ issuer, shard, shards }) => `${issuer} ${shard} ${shards}`}
                empty={<Empty title="No CRL yet" />}
              />
            </>
          ) : (
            <Empty title="No CRL is published." about="Set crl.enabled and ca.crl_url in the configuration." />
          )
        }
      </Ready>
    </Page>
  )
}
