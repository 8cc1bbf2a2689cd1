/** The package pg, loaded after its patches (navigator.ts, pg-tls.ts). */

import './navigator.ts'
import './pg-tls.ts'

export { default } from 'pg'
