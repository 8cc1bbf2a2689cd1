/** Issuers with their chains, and the CRLs that they sign. */

import { call, type Output } from '../api.ts'
import { Allowed, Badge, Copyable, Empty, Problem, Ready, Time } from '../components/basics.tsx'
import { saveFile } from '../components/csv.tsx'
import { useSubmit } from '../components/form.tsx'
import { List } from '../components/list.tsx'
import { Page, tell } from '../components/page.tsx'
import { type Column, Table } from '../components/table.tsx'
import { countText } from '../format.ts'
import { href, type PageProps } from '../router.ts'
import { useApi } from '../use-api.ts'
import { useList } from '../use-list.ts'

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
  { head: 'Until', kind: 'fixed', cell: ({ not_after }) => <Time at={not_after} /> },
  { head: 'Chain', cell: ({ above }) => above.map(({ subject }) => subject).join(' ← ') },
  {
    head: 'Actions',
    kind: 'fixed',
    cell: ({ fingerprint }) => (
      <div class="actions left">
        <button type="button" class="small" onClick={() => saveChain(fingerprint)}>
          Save chain
        </button>
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
  { head: 'Entries', kind: 'number', cell: ({ entries }) => countText(entries) },
  { head: 'Bytes', kind: 'number', cell: ({ bytes }) => countText(bytes) },
  { head: 'This update', kind: 'fixed', cell: ({ this_update }) => <Time at={this_update} relative={false} /> },
  { head: 'Next update', kind: 'fixed', cell: ({ next_update }) => <Time at={next_update} /> },
]

const POLL_MS = 10_000

export function CrlPage() {
  const loaded = useApi('listCrls', {}, { every: POLL_MS })
  const { submit, error, isBusy } = useSubmit(async () => {
    const built = await call('rebuildCrl', {})
    tell(built.error === null ? 'The CRLs are rebuilt.' : built.error, built.error === null ? 'good' : 'bad')
    loaded.reload()
  })
  const { data } = loaded
  return (
    <Page
      title="CRL"
      actions={
        <Allowed to="rebuildCrl">
          {data?.enabled && (
            <button type="button" disabled={isBusy} onClick={() => submit()}>
              Rebuild now
            </button>
          )}
        </Allowed>
      }
    >
      {isBusy && (
        <p role="status">
          The CRLs are being rebuilt. This takes up to 20 seconds, and may continue in the background.{' '}
          <progress aria-label="The CRLs are being rebuilt. This takes up to 20 seconds, and may continue in the background." />
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
            <Empty title="No CRL is published.">
              <p>Set crl.enabled and ca.crl_url in the configuration.</p>
            </Empty>
          )
        }
      </Ready>
    </Page>
  )
}
