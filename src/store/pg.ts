/** The package pg, loaded after its patch (pg-tls.ts). */

import './pg-tls.ts'

export { default } from 'pg'
