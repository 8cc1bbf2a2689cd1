/** The plan for an incident: choices, the mail to the owners, and one confirmation with the counts. */

import { useState } from 'preact/hooks'
import { call, type Output } from '../api.ts'
import { LongText } from '../components/basics.tsx'
import { Action } from '../components/dialog.tsx'
import { CheckField, SelectField, TextField, WorkButton } from '../components/form.tsx'
import { Section } from '../components/page.tsx'
import { counted, countText } from '../format.ts'
import { KEY_COMPROMISE, REVOCATION_REASONS } from '../labels.ts'
import { go } from '../router.ts'
import type { Examination } from './incident-words.ts'

interface Choices {
  revoke: boolean
  reason: string
  block: boolean
  advise: boolean
  tell: boolean
  remark: string
}

export function Plan({ found }: { found: Examination }) {
  const { filter, certificates: count, key_blocked } = found
  const isKey = filter['spki_sha256'] !== undefined
  const [chosen, setChosen] = useState<Choices>({
    revoke: count > 0,
    reason: isKey ? KEY_COMPROMISE : '0',
    block: key_blocked === false,
    advise: false,
    tell: false,
    remark: '',
  })
  const choose = (changed: Partial<Choices>) => setChosen({ ...chosen, ...changed })
  const certificates = counted(count, 'certificate')
  const acts = [
    chosen.revoke && `${certificates} will be revoked. This cannot be undone.`,
    chosen.block && 'The key will be blocked: it is never certified again, and an account that has it is revoked.',
    chosen.advise && `Renewal information of ${certificates} will say: renew now.`,
    chosen.tell && 'The owners will get a mail.',
  ].filter((act) => act !== false)
  return (
    <Section title="3. What to do">
      <Fields found={found} chosen={chosen} choose={choose} />
      {acts.length > 0 && (
        <Action
          needs="beginIncident"
          kind="danger"
          text="Begin …"
          action="Begin"
          title="Begin the incident"
          {...(count > 0 && { typed: String(count) })}
          consequence={
            <ul>
              {acts.map((act) => (
                <li key={act}>{act}</li>
              ))}
            </ul>
          }
          onConfirm={() => begin(found, chosen)}
        />
      )}
    </Section>
  )
}

interface FieldsProps {
  found: Examination
  chosen: Choices
  choose: (changed: Partial<Choices>) => void
}

function Fields({ found: { filter, certificates: count, key_blocked }, chosen, choose }: FieldsProps) {
  return (
    <>
      {count > 0 && (
        <CheckField
          label={`Revoke ${counted(count, 'certificate')}`}
          checked={chosen.revoke}
          onChange={(revoke) => choose({ revoke })}
        />
      )}
      {chosen.revoke && (
        <div class="narrow">
          <SelectField
            label="Reason"
            value={chosen.reason}
            onChange={(reason) => choose({ reason })}
            options={Object.entries(REVOCATION_REASONS)}
          />
        </div>
      )}
      {key_blocked === false && (
        <CheckField label="Block the key" checked={chosen.block} onChange={(block) => choose({ block })} />
      )}
      {count > 0 && (
        <>
          <CheckField
            label="Advise renewal: clients that ask for renewal information renew now"
            checked={chosen.advise}
            onChange={(advise) => choose({ advise })}
          />
          <CheckField label="Tell the owners by mail" checked={chosen.tell} onChange={(tell) => choose({ tell })} />
        </>
      )}
      {chosen.tell && (
        <>
          <TextField
            label="A sentence for the owners"
            value={chosen.remark}
            onChange={(remark) => choose({ remark })}
          />
          <MailPreview filter={filter} chosen={chosen} key={JSON.stringify(chosen)} />
        </>
      )}
    </>
  )
}

async function begin({ filter, certificates }: Examination, chosen: Choices): Promise<void> {
  const { id } = await call('beginIncident', {
    body: {
      filter,
      revoke: chosen.revoke,
      reason: Number(chosen.reason),
      block_key: chosen.block,
      advise_renewal: chosen.advise,
      tell_owners: chosen.tell,
      confirm_count: certificates,
      ...(chosen.remark.trim() !== '' && { remark: chosen.remark }),
    },
  })
  go(`/incident/${id}`)
}

function MailPreview({ filter, chosen }: { filter: Examination['filter']; chosen: Choices }) {
  const [mail, setMail] = useState<Output<'previewIncidentMail'>>()
  const preview = async () => {
    const { revoke, reason, remark } = chosen
    const body = { filter, revoke, reason: Number(reason), ...(remark.trim() !== '' && { remark }) }
    setMail(await call('previewIncidentMail', { body }))
  }
  return (
    <div aria-live="polite">
      <WorkButton kind="small" text="Preview mail" work={preview} />
      {mail && (
        <>
          <p>
            {counted(mail.mails, 'mail')} to {counted(mail.accounts, 'account')}; {countText(mail.without_contact)}{' '}
            without a contact cannot be written to.
            {!mail.enabled && ' Mail is off (smtp.enabled, notifications.enabled): nobody can be told.'}
          </p>
          {mail.text !== null && (
            <>
              <p>
                <strong>{mail.subject}</strong>
              </p>
              <LongText>{mail.text}</LongText>
            </>
          )}
        </>
      )}
    </div>
  )
}
