/** The passkeys of the user who is signed in. */

import { call, type Output } from '../api.ts'
import { Ready, Time } from '../components/basics.tsx'
import { Action } from '../components/dialog.tsx'
import { TextField, useForm } from '../components/form.tsx'
import { Section, tell } from '../components/page.tsx'
import { type Column, Table } from '../components/table.tsx'
import { addPasskey, elsewhere, workHere } from '../passkeys.ts'
import { lacksFactor } from '../questions.ts'
import { useStore } from '../store.ts'
import { useApi } from '../use-api.ts'

type Passkey = Output<'listMyPasskeys'>[number]

const columnsOf = (reload: () => void): Column<Passkey>[] => [
  { head: 'Name', kind: 'wide', cell: ({ name }) => name },
  { head: 'Registered', kind: 'fixed', cell: ({ created_at }) => <Time at={created_at} /> },
  { head: 'Last used', kind: 'fixed', cell: ({ last_used_at }) => <Time at={last_used_at} /> },
  {
    head: 'Actions',
    cell: (passkey) => (
      <div class="actions left">
        <Rename passkey={passkey} onDone={reload} />
        <Action
          kind="small"
          action="Remove"
          danger
          label={`Remove the passkey ${passkey.name}`}
          title={`Remove the passkey ${passkey.name}`}
          consequence={<p>It no longer signs you in here. Remove it from the device or the password manager, too.</p>}
          onConfirm={async () => {
            await call('removePasskey', { params: { passkey_id: passkey.id } })
            tell('The passkey is removed.')
            reload()
          }}
        />
      </div>
    ),
  },
]

export function OwnPasskeys() {
  const loaded = useApi('listMyPasskeys', {})
  const { data: ways } = useApi('getSignInMethods', {})
  return (
    <Section title="Your passkeys">
      {useStore(lacksFactor) && (
        <p class="bar warn" role="alert">
          A second factor is required here. Register a passkey to go on.
        </p>
      )}
      <p class="quiet">
        A passkey signs you in without a password, by fingerprint, face or PIN. Once you have one, it is asked for
        behind your password, too. Have two: only an operator at the host can help who has lost them all.
      </p>
      <Ready loaded={loaded}>
        {(passkeys) => (
          <Table
            caption="Your passkeys"
            rows={passkeys}
            columns={columnsOf(loaded.reload)}
            empty={<p class="quiet">No passkeys</p>}
          />
        )}
      </Ready>
      {ways?.passkeys === false && (
        <p class="quiet">Passkeys need a console at a host name with HTTPS: see admin_api.console_url.</p>
      )}
      {elsewhere(ways) && (
        <p class="quiet">Passkeys work at {elsewhere(ways)} alone: open the console there to add one.</p>
      )}
      {workHere(ways) && <Add onDone={loaded.reload} />}
    </Section>
  )
}

function Add({ onDone }: { onDone: () => void }) {
  const { values, field, reset } = useForm({ name: '' })
  return (
    <div class="actions left">
      <Action
        action="Add a passkey"
        consequence={<p>From now on it is asked for behind your password.</p>}
        onOpen={reset}
        onConfirm={async () => {
          const { name } = await addPasskey(values.name)
          tell(`The passkey ${name} is registered.`)
          onDone()
        }}
      >
        {(error) => <TextField label="Name" required placeholder="Security key, blue" {...field('name', error)} />}
      </Action>
    </div>
  )
}

function Rename({ passkey: { id, name }, onDone }: { passkey: Passkey; onDone: () => void }) {
  const { values, field, reset } = useForm({ name })
  return (
    <Action
      kind="small"
      text="Rename"
      label={`Rename the passkey ${name}`}
      action="Save"
      title={`Rename the passkey ${name}`}
      onOpen={reset}
      onConfirm={() => call('renamePasskey', { params: { passkey_id: id }, body: values }).then(onDone)}
    >
      {(error) => <TextField label="Name" required {...field('name', error)} />}
    </Action>
  )
}
