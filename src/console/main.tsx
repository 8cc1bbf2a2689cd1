/** Starts the console. */

import { render } from 'preact'
import { call } from './api.ts'
import { App } from './app.tsx'
import { currentSession, noteUser, watchSession } from './session.ts'
import { watchTheme } from './theme.ts'

watchTheme()
watchSession(() => {
  // The session ends here in any case, and at the service by its age.
  call('logout', {}).catch(() => undefined)
})
// The role may be another one since the tab was last loaded.
if (currentSession().token !== undefined) call('getMe', {}).then(noteUser, () => undefined)
const place = document.getElementById('console')
if (place) render(<App />, place)
