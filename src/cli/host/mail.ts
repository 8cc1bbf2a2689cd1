/** `chancery mail …`: a test of the mail server, and a look at mails. */

import { randomUUID } from 'node:crypto'
import { isNotificationType } from '../../domain/notification.ts'
import { MailTemplates, sampleOf } from '../../events/notifications/templates.ts'
import { MailTransport } from '../../events/notifications/transport.ts'
import { mailSettings, templatesPath } from '../../settings/event-settings.ts'
import { readConfigFile } from '../config-file.ts'
import { tell } from '../printing.ts'
import { CommandError, type Printing } from '../values.ts'

export async function sendTestMail({ config: file, json }: Printing, recipient: string): Promise<number> {
  const settings = mailSettings(await readConfigFile(file))
  if (settings.host === '' || settings.from === '') throw new CommandError('smtp.host and smtp.from_address are needed')
  const text = `This is a test of the mail settings of ${settings.serverUrl}.\n`
  const transport = new MailTransport(settings)
  try {
    await transport.send({
      recipient,
      text,
      subject: 'Test mail',
      html: `<p>${text.trim()}</p>`,
      messageId: `<${randomUUID()}@${new URL(settings.serverUrl).hostname}>`,
    })
  } catch (error) {
    throw new CommandError(`${settings.host}:${settings.port} did not take the mail: ${(error as Error).message}`)
  } finally {
    transport.close()
  }
  const server = `${settings.host}:${settings.port}`
  tell(json, { server, recipient }, `${server} has taken the mail for ${recipient}`)
  return 0
}

export async function previewMail(
  { config: file, json, html }: Printing & { html: boolean },
  type: string,
): Promise<number> {
  if (!isNotificationType(type)) throw new CommandError(`${JSON.stringify(type)} is no notification type`)
  const config = await readConfigFile(file)
  let code = 0
  const templates = new MailTemplates(templatesPath(config), (file, error) => {
    code = 1
    console.error(`${file} is broken, and the built-in one is used: ${(error as Error).message}`)
  })
  const mail = templates.render(type, sampleOf(type))
  const { subject, text } = mail
  tell(json, { subject, text, html: mail.html }, html ? mail.html : `Subject: ${subject}\n\n${text}`)
  return code
}
