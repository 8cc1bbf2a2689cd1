/** A mail server as a process, so that it can be killed: keeps instant, Message-ID, recipient and body as a line. */

import { appendFileSync } from 'node:fs'
import { SMTPServer } from 'smtp-server'

const [, , port, file] = process.argv as [string, string, string, string]
new SMTPServer({
  authOptional: true,
  disabledCommands: ['STARTTLS', 'AUTH'],
  onData(stream, session, done) {
    const chunks: Buffer[] = []
    stream.on('data', (chunk: Buffer) => chunks.push(chunk))
    stream.on('end', () => {
      const text = Buffer.concat(chunks).toString()
      const id = /^Message-ID: <(.*)>/m.exec(text)?.[1]
      const to = session.envelope.rcptTo.map(({ address }) => address)
      appendFileSync(file, `${JSON.stringify({ at: Date.now(), id, to, text })}\n`)
      done()
    })
  },
})
  .on('error', () => undefined)
  .listen(Number(port), '127.0.0.1', () => console.log('listening'))
