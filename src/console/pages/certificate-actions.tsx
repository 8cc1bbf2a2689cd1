/** Actions on one certificate: save it, ask its client to renew it, revoke it. */

import { useState } from 'preact/hooks'
import { call, type Output } from '../api.ts'
import { saveFile } from '../components/csv.tsx'
import { Action } from '../components/dialog.tsx'
import { SelectField } from '../components/form.tsx'
import { tell } from '../components/page.tsx'
import { derOf } from '../format.ts'
import { KEY_COMPROMISE, RENEWAL_ADVICE, REVOCATION_REASONS } from '../labels.ts'

type Certificate = Output<'getCertificate'>

export function CertificateActions({ certificate, onChange }: { certificate: Certificate; onChange: () => void }) {
  const serial = certificate.serial_number
  const isAlive = certificate.revoked_at === null && Date.parse(certificate.not_after) > Date.now()
  const save = (name: string, content: Promise<string | Uint8Array<ArrayBuffer>>) =>
    content.then(
      (bytes) => saveFile(name, 'application/octet-stream', bytes),
      (error: Error) => tell(error.message, 'bad'),
    )
  const pem = () => call('getCertificatePem', { params: { serial } })
  const chain = () => call('getCertificateChain', { params: { serial } })
  return (
    <div class="actions">
      <button type="button" onClick={() => save(`${serial}.pem`, pem())}>
        Save PEM
      </button>
      <button type="button" onClick={() => save(`${serial}.der`, pem().then(derOf))}>
        Save DER
      </button>
      <button type="button" onClick={() => save(`${serial}-chain.pem`, chain())}>
        Save chain
      </button>
      {isAlive && (
        <Action
          needs="adviseRenewal"
          action="Ask to renew now"
          title="Ask the client to renew now"
          consequence={<p>{RENEWAL_ADVICE}</p>}
          onConfirm={async () => {
            await call('adviseRenewal', { body: { filter: { serial_numbers: [serial] } } })
            tell('Renewal information now asks the client to renew.')
            onChange()
          }}
        />
      )}
      {certificate.revoked_at === null && <Revoke certificate={certificate} onDone={onChange} />}
    </div>
  )
}

function Revoke({ certificate, onDone }: { certificate: Certificate; onDone: () => void }) {
  const [reason, setReason] = useState('0')
  const { serial_number: serial, san_values } = certificate
  return (
    <Action
      needs="revokeCertificate"
      kind="danger"
      text="Revoke …"
      title="Revoke this certificate"
      action="Revoke"
      onOpen={() => setReason('0')}
      consequence={
        <>
          <p>
            Clients that check the CRL refuse {san_values.join(', ')} once the next CRL is out. This cannot be undone.
            The ACME client is not told, unless it asks for renewal information.
          </p>
          <p class="quiet">
            <code>{serial}</code>
          </p>
        </>
      }
      onConfirm={async () => {
        await call('revokeCertificate', { params: { serial }, body: { reason: Number(reason) } })
        tell(`The certificate ${serial} is revoked.`)
        onDone()
      }}
    >
      <SelectField
        label="Reason"
        value={reason}
        onChange={setReason}
        options={Object.entries(REVOCATION_REASONS)}
        help={
          reason === KEY_COMPROMISE
            ? 'The key is blocked for good: the client needs a new one for its next certificate.'
            : 'The key is not blocked: only keyCompromise does that.'
        }
      />
    </Action>
  )
}
