/** The package pg, after what makes it quick to load, and with what it lacks. */

import './navigator.ts'
import './pg-tls.ts'

export { default } from 'pg'
