import { Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { type Browser, chromium, type Page } from 'playwright-core'
import { completion, json, type ScriptedUpstream, startUpstream } from '../upstream.ts'
import type { Compared, Said, Told } from './case.ts'
import type { Tavern } from './program.ts'

/** SillyTavern's page in headless Chromium, with an upstream that records its requests. */
export interface TavernPage {
  /**
   * Plays a case as a user of the page would: imports the card and its lorebook, and enters the messages. The upstream answers
   * each message of the user with the character's message that follows it in the case.
   * @returns the messages of the last request that the upstream got
   * @throws Error if the page sends no request
   */
  play(compared: Compared): Promise<readonly Told[]>
  close(): Promise<void>
}

/** The parts of SillyTavern's modules in the page that this file uses. */
interface Modules {
  readonly script: {
    readonly chat: unknown[]
    readonly sendMessageAsUser: (text: string, bias: string) => Promise<unknown>
    readonly deleteCharacter: (avatar: string) => Promise<unknown>
    readonly setOnlineStatus: (status: string) => void
    readonly setUserName: (name: string, options: object) => void
    readonly changeMainAPI: () => void
  }
  readonly world: {
    readonly updateWorldInfoSettings: (settings: object, active: readonly string[]) => void
    readonly updateWorldInfoList: () => Promise<void>
  }
}

/** The parts of `SillyTavern.getContext()` that this file uses. */
interface Context {
  readonly characters: readonly { readonly avatar: string; readonly name: string }[]
  readonly characterId: string
  readonly chatCompletionSettings: Record<string, unknown> & {
    readonly prompts: { readonly identifier: string; content: string }[]
  }
  readonly powerUserSettings: Record<string, unknown>
  readonly swipe: { readonly to: (event: null, direction: string, options: object) => Promise<unknown> }
  readonly getRequestHeaders: (options?: object) => Record<string, string>
  readonly getCharacters: () => Promise<void>
  readonly selectCharacterById: (id: number) => Promise<void>
  readonly convertCharacterBook: (book: unknown) => object
  readonly saveWorldInfo: (name: string, data: object, immediately: boolean) => Promise<void>
  readonly writeExtensionField: (id: number, key: string, value: string) => Promise<void>
  readonly executeSlashCommandsWithOptions: (text: string) => Promise<unknown>
  readonly generate: (type: string) => Promise<unknown>
}

declare const tavern: Modules
declare const document: { querySelector(selector: string): { value: string } | null }
declare const SillyTavern: { getContext(): Context }

/** Opens the page. The caller closes it. @param program a SillyTavern that has not been used before */
export async function openTavernPage(program: Tavern, mainPrompt: string): Promise<TavernPage> {
  await setUp(program)
  const upstream = await startUpstream(json(completion('Yes.')))
  const browser = await chromium.launch({ executablePath: process.env['CHROMIUM'] ?? '/usr/bin/chromium' })
  const page = await browser.newPage()
  await page.goto(program.url)
  await page.waitForFunction(
    'globalThis.SillyTavern?.getContext().characters !== undefined && !document.querySelector("#preloader")',
  )
  await page.evaluate(`Promise.all([import('/script.js'), import('/scripts/world-info.js')])
    .then(([script, world]) => { globalThis.tavern = { script, world } })`)
  await page.evaluate(connect, { url: upstream.url, mainPrompt })
  return {
    play: (compared) => play(page, upstream, compared),
    close: () => close(browser, upstream),
  }
}

async function close(browser: Browser, upstream: ScriptedUpstream): Promise<void> {
  await browser.close()
  await upstream.close()
}

/** Saves settings, so that the page shows no dialog at its first start. */
async function setUp(program: Tavern): Promise<void> {
  const kept = await (await program.post('/api/settings/get', {})).json()
  const { settings } = Value.Decode(Type.Object({ settings: Type.String() }), kept)
  const saved = await program.post('/api/settings/save', {
    ...JSON.parse(settings),
    firstRun: false,
    main_api: 'openai',
  })
  if (!saved.ok) throw new Error(`The settings are not saved: ${saved.status}`)
}

/** Runs in the page: sets the settings of all cases. */
function connect({ url, mainPrompt }: { readonly url: string; readonly mainPrompt: string }): void {
  const { chatCompletionSettings: settings, powerUserSettings } = SillyTavern.getContext()
  Object.assign(settings, {
    chat_completion_source: 'custom',
    custom_url: url,
    custom_model: 'recorded',
    bypass_status_check: true,
    stream_openai: false,
    max_context_unlocked: true,
    openai_max_context: 100_000,
    new_chat_prompt: '',
    continue_prefill: true,
  })
  for (const prompt of settings.prompts) if (prompt.identifier === 'main') prompt.content = mainPrompt
  powerUserSettings['world_import_dialog'] = false
  powerUserSettings['tag_import_setting'] = 2
  tavern.script.setOnlineStatus('Valid')
}

async function play(page: Page, upstream: ScriptedUpstream, compared: Compared): Promise<readonly Told[]> {
  const { messages, isContinued = false } = compared
  const avatar = await page.evaluate(begin, compared)
  const asked = upstream.calls.length
  for (const [index, said] of messages.entries()) {
    const next = messages[index + 1]
    const answer = next?.role === 'assistant' ? next.content : 'Yes.'
    if (said.role === 'assistant') {
      // A character's message after a user's message is already in the chat, because the upstream answered with it.
      if (messages[index - 1]?.role !== 'user') await page.evaluate(add, said)
    } else if (next?.role === 'user') {
      await page.evaluate(add, said)
    } else {
      upstream.answer(json(completion(answer)))
      await page.evaluate(say, said.content)
    }
  }
  if (isContinued) await page.evaluate(() => SillyTavern.getContext().generate('continue'))
  const last = upstream.calls.slice(asked).findLast(({ path }) => path.endsWith('/chat/completions'))
  await page.evaluate((key) => tavern.script.deleteCharacter(key), avatar)
  if (!last) throw new Error(`SillyTavern asked nothing for “${compared.name}”`)
  return Value.Decode(sent, last.body).messages
}

const sent = Type.Object({
  messages: Type.Array(
    Type.Object({ role: Type.String(), content: Type.String(), name: Type.Optional(Type.String()) }),
  ),
})

/** Runs in the page: opens a new chat with the card and the settings of a case. @returns the name of the card's file */
async function begin(compared: Compared): Promise<string> {
  const { card, userName = 'Ada', persona = '', note, worlds = [], tavernSettings = {}, greeting = 0 } = compared
  const context = SillyTavern.getContext()
  context.powerUserSettings['persona_description'] = persona
  context.powerUserSettings['persona_description_position'] = 0
  tavern.script.setUserName(userName, { toastPersonaNameChange: false })

  const form = new FormData()
  form.append('avatar', new File([JSON.stringify(card)], 'card.json'))
  form.append('file_type', 'json')
  const headers = context.getRequestHeaders({ omitContentType: true })
  const imported = await fetch('/api/characters/import', { method: 'POST', body: form, headers })
  const { file_name: file } = JSON.parse(await imported.text())
  const avatar = `${file}.png`
  await context.getCharacters()
  const id = SillyTavern.getContext().characters.findIndex((each) => each.avatar === avatar)
  if (id === -1) throw new Error(`the card is not imported: ${file}`)

  const active: string[] = []
  for (const [index, world] of worlds.entries()) {
    const name = `world ${Date.now()} ${index}`
    await context.saveWorldInfo(name, world.file ?? context.convertCharacterBook(world.book), true)
    active.push(name)
  }
  const settings = {
    world_info_depth: 4,
    world_info_include_names: false,
    world_info_budget_cap: 0,
    world_info_recursive: true,
    world_info_match_whole_words: true,
    world_info_case_sensitive: false,
    ...tavernSettings,
  }
  tavern.world.updateWorldInfoSettings(settings, active)
  await context.selectCharacterById(id)
  const { data } = card
  if (typeof data === 'object' && data !== null && 'character_book' in data) {
    const name = `book ${Date.now()}`
    await context.saveWorldInfo(name, context.convertCharacterBook(structuredClone(data.character_book)), true)
    await context.writeExtensionField(id, 'world', name)
  }
  await tavern.world.updateWorldInfoList()
  if (greeting > 0) await SillyTavern.getContext().swipe.to(null, 'right', { forceMesId: 0, forceSwipeId: greeting })
  if (note) {
    const { text, depth, role } = note
    await context.executeSlashCommandsWithOptions(`/note ${text}`)
    await context.executeSlashCommandsWithOptions(`/note-position chat | /note-depth ${depth} | /note-role ${role}`)
  }
  return avatar
}

/** Runs in the page: writes a message and sends it. */
async function say(text: string): Promise<void> {
  const field = document.querySelector('#send_textarea')
  if (field) field.value = text
  await SillyTavern.getContext().generate('normal')
}

/** Runs in the page: adds a message to the chat without a request for an answer. */
async function add({ role, content }: Said): Promise<void> {
  if (role === 'user') await tavern.script.sendMessageAsUser(content, '')
  else {
    const { characters, characterId } = SillyTavern.getContext()
    const name = characters[Number(characterId)]?.name ?? ''
    tavern.script.chat.push({ name, is_user: false, is_system: false, mes: content, extra: {} })
  }
}
