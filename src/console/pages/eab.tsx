/** Binding credentials (RFC 8555 §7.3.4): the list, and a new one with its ready command lines. */

import { useState } from 'preact/hooks'
import { call, type Input, type Output, useApi, useList } from '../api.ts'
import { Allowed, Badge, Copyable, Empty, fieldError, Problem, Ready, Time } from '../components/basics.tsx'
import type { CsvFile } from '../components/csv.tsx'
import { Dialog } from '../components/dialog.tsx'
import { type Filter, FilterBar } from '../components/filter-bar.tsx'
import { DayField, TextField, useSubmit } from '../components/form.tsx'
import { Page } from '../components/page.tsx'
import { ShownOnce } from '../components/shown-once.tsx'
import { type Column, List } from '../components/table.tsx'
import { endOfDay } from '../days.ts'
import { href, type PageProps } from '../router.ts'
import { WORDS } from '../words.ts'
import { clientCommands, directoryUrlOf } from './client-commands.ts'
import { linesOf } from './profile-fields.ts'

type Credential = Output<'listEabCredentials'>[number]
type WithKey = Output<'createEabCredential'>

export function CredentialState({ credential }: { credential: Credential }) {
  const { revoked, used, expires_at } = credential
  if (revoked) return <Badge tone="bad">{WORDS.eab.revoked}</Badge>
  if (expires_at !== null && Date.parse(expires_at) < Date.now()) return <Badge>{WORDS.eab.expired}</Badge>
  return used ? <Badge tone="good">{WORDS.eab.used}</Badge> : <Badge>{WORDS.eab.unused}</Badge>
}

const COLUMNS: readonly Column<Credential>[] = [
  { head: WORDS.common.kid, kind: 'wide', cell: ({ id, kid }) => <a href={href(`/eab/${id}`)}>{kid}</a> },
  { head: WORDS.eab.label, cell: ({ label }) => label },
  { head: WORDS.common.status, cell: (credential) => <CredentialState credential={credential} /> },
  {
    head: WORDS.eab.uses,
    kind: 'fixed',
    cell: ({ uses, max_uses }) => (max_uses === null ? uses : `${uses} / ${max_uses}`),
  },
  { head: WORDS.common.expires, kind: 'fixed', cell: ({ expires_at }) => <Time at={expires_at} /> },
  { head: WORDS.common.created, kind: 'fixed', cell: ({ created_at }) => <Time at={created_at} relative={false} /> },
]

const CSV: CsvFile<Credential> = {
  name: 'eab-credentials.csv',
  members: [
    ...(['id', 'kid', 'label', 'used', 'used_at', 'revoked', 'expires_at', 'uses', 'max_uses'] as const),
    ...(['account_id', 'allowed_networks', 'profiles', 'created_at'] as const),
  ],
}

const FILTERS: readonly Filter[] = [
  { name: 'status', label: WORDS.common.status, options: Object.entries(WORDS.eab.statuses) },
]

export function EabPage({ query, entry }: PageProps) {
  const list = useList('listEabCredentials', { query } as Input<'listEabCredentials'>, entry)
  const [isOpen, setOpen] = useState(false)
  const [made, setMade] = useState<WithKey>()
  const create = (
    <Allowed to="createEabCredential">
      <button type="button" class="primary" onClick={() => setOpen(true)}>
        {WORDS.eab.create}
      </button>
    </Allowed>
  )
  return (
    <Page title={WORDS.pages.eab} actions={create}>
      <p class="quiet">{WORDS.eab.about}</p>
      <FilterBar query={query} filters={FILTERS} />
      <List
        caption={WORDS.pages.eab}
        list={list}
        columns={COLUMNS}
        rowKey={({ id }) => id}
        csv={CSV}
        empty={
          query['status'] ? (
            <Empty title={WORDS.table.noMatch} />
          ) : (
            <Empty title={WORDS.eab.empty}>
              <ol>
                {WORDS.eab.begin.map((step) => (
                  <li key={step}>{step}</li>
                ))}
              </ol>
              {create}
            </Empty>
          )
        }
      />
      {isOpen && (
        <CreateDialog
          onClose={() => setOpen(false)}
          onMade={(credential) => {
            setOpen(false)
            setMade(credential)
            list.reload()
          }}
        />
      )}
      {made && <MadeDialog credential={made} onClose={() => setMade(undefined)} />}
    </Page>
  )
}

function CreateDialog({ onClose, onMade }: { onClose: () => void; onMade: (made: WithKey) => void }) {
  const [form, setForm] = useState({ kid: '', label: '', maxUses: '', expires: '', networks: '' })
  const change = (name: keyof typeof form) => (value: string) => setForm({ ...form, [name]: value })
  const { submit, error, isBusy } = useSubmit(async () => {
    const { kid, label, maxUses, expires, networks } = form
    const allowed_networks = linesOf(networks)
    const body = {
      kid,
      ...(label && { label }),
      ...(maxUses && { max_uses: Number(maxUses) }),
      ...(expires && { expires_at: endOfDay(expires) }),
      ...(allowed_networks && { allowed_networks }),
    }
    onMade(await call('createEabCredential', { body }))
  })
  const field = (name: keyof typeof form, member: string) => ({
    value: form[name],
    onChange: change(name),
    error: fieldError(error, member),
  })
  return (
    <Dialog title={WORDS.eab.create} onClose={onClose}>
      <form onSubmit={submit}>
        <TextField label={WORDS.common.kid} help={WORDS.eab.kidHelp} required {...field('kid', 'kid')} />
        <TextField label={WORDS.eab.label} help={WORDS.eab.labelHelp} {...field('label', 'label')} />
        <TextField
          label={WORDS.eab.maxUses}
          help={WORDS.eab.maxUsesHelp}
          type="number"
          {...field('maxUses', 'max_uses')}
        />
        <DayField label={WORDS.common.expires} help={WORDS.common.endOfDay} {...field('expires', 'expires_at')} />
        <TextField
          label={WORDS.eab.networks}
          help={WORDS.eab.networksHelp}
          rows={2}
          {...field('networks', 'allowed_networks')}
        />
        <Problem error={error} />
        <div class="actions">
          <button type="button" onClick={onClose}>
            {WORDS.app.cancel}
          </button>
          <button type="submit" class="primary" disabled={isBusy}>
            {WORDS.eab.create}
          </button>
        </div>
      </form>
    </Dialog>
  )
}

function MadeDialog({ credential, onClose }: { credential: WithKey; onClose: () => void }) {
  const settings = useApi('getSettings', {})
  const { kid, hmac_key: hmacKey } = credential
  return (
    <ShownOnce
      title={WORDS.eab.made(kid)}
      secrets={[
        [WORDS.common.kid, kid],
        [WORDS.eab.key, hmacKey],
      ]}
      onClose={onClose}
    >
      <p>{WORDS.eab.commands}</p>
      <Ready loaded={settings}>
        {({ settings: shown }) =>
          clientCommands({ directoryUrl: directoryUrlOf(shown), kid, hmacKey }).map(({ client, place, text }) => (
            <details key={client}>
              <summary>
                {client} <span class="quiet">{place}</span>
              </summary>
              <Copyable text={text} block />
            </details>
          ))
        }
      </Ready>
    </ShownOnce>
  )
}
