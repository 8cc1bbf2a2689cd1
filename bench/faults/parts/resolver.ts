/** A name server as a process, so that it can be killed: every name has the address 127.0.0.1. */

import { startDnsResponder } from '../../responder/responders.ts'

await startDnsResponder('127.0.0.1', Number(process.argv[2]), '127.0.0.1', new Map())
