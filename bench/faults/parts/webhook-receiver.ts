/** A receiver of webhooks as a process, so that it can be killed: keeps each body with its instant as a line, then says yes. */

import { appendFileSync } from 'node:fs'
import { createServer } from 'node:http'

const [, , port, file] = process.argv as [string, string, string, string]
createServer((request, response) => {
  const chunks: Buffer[] = []
  request.on('data', (chunk: Buffer) => chunks.push(chunk))
  request.on('end', () => {
    appendFileSync(file, `{"at":${Date.now()},"body":${Buffer.concat(chunks).toString()}}\n`)
    response.writeHead(204).end()
  })
}).listen(Number(port), '127.0.0.1', () => console.log('listening'))
