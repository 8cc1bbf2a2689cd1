/** The user's own profile: who is signed in, and a new password. */

import { useState } from 'preact/hooks'
import { call, type Output, useApi } from '../api.ts'
import { Facts, Ready, Time } from '../components/basics.tsx'
import { Confirm } from '../components/dialog.tsx'
import { TextField } from '../components/form.tsx'
import { Page } from '../components/page.tsx'
import { ShownOnce } from '../components/shown-once.tsx'
import { forget } from '../session.ts'
import { WORDS } from '../words.ts'

export function ProfilePage() {
  const loaded = useApi('getMe', {})
  const [isAsking, setAsking] = useState(false)
  const [current, setCurrent] = useState('')
  const [made, setMade] = useState<Output<'resetMyPassword'>>()
  return (
    <Page title={WORDS.pages.profile}>
      <Ready loaded={loaded}>
        {(me) => (
          <Facts
            rows={[
              [WORDS.users.username, me.username],
              [WORDS.users.email, me.email],
              [WORDS.users.role, WORDS.session.roles[me.role]],
              [WORDS.users.lastLogin, <Time key="login" at={me.last_login_at} />],
              [WORDS.common.created, <Time key="created" at={me.created_at} />],
            ]}
          />
        )}
      </Ready>
      <div class="actions left">
        <button
          type="button"
          onClick={() => {
            setCurrent('')
            setAsking(true)
          }}
        >
          {WORDS.profile.reset}
        </button>
      </div>
      {isAsking && (
        <Confirm
          title={WORDS.profile.reset}
          consequence={<p>{WORDS.profile.consequence}</p>}
          action={WORDS.profile.reset}
          danger
          onClose={() => setAsking(false)}
          onConfirm={async () => setMade(await call('resetMyPassword', { body: { current_password: current } }))}
        >
          <TextField
            label={WORDS.profile.current}
            type="password"
            autoComplete="current-password"
            value={current}
            onChange={setCurrent}
            required
          />
        </Confirm>
      )}
      {made && (
        <ShownOnce title={WORDS.profile.made} secrets={[[WORDS.session.password, made.password]]} onClose={forget} />
      )}
    </Page>
  )
}
