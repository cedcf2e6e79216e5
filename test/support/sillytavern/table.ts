import { builtInSystemPrompt } from '../../../src/characters/prompt/settings.ts'
import type { Told } from './case.ts'
import { isSame, type Verdict } from './comparison.ts'
import { version } from './program.ts'

/** The page `docs/sillytavern.md` as Markdown, with the prompts of all cases. */
export function pageOf(verdicts: readonly Verdict[]): string {
  const same = verdicts.filter(isSame)
  const decided = verdicts.filter((verdict) => !isSame(verdict) && verdict.compared.otherwise !== undefined)
  const open = verdicts.filter((verdict) => !isSame(verdict) && verdict.compared.otherwise === undefined)
  return `# Comparison with SillyTavern

This page compares the prompts of SillyTavern and of [\`POST /chat/prompt\`](interfaces.md#routes) for ${verdicts.length} cases. A case is one conversation with one card and the same settings.
${same.length} cases have the same prompt, and ${decided.length} differ on purpose, each with its reason${open.length === 0 ? '' : `; ${open.length} are not the same yet`}. \`npm run trials -- compare\` runs the cases and writes this page.

SillyTavern (\`${version}\` from npm) runs with its page in headless Chromium. In each case it imports the card, and the
trial types the user's messages. The last request that SillyTavern sends to its upstream is compared. The settings of SillyTavern are
those of a fresh installation, with these exceptions: the main prompt is the service's own (\`${builtInSystemPrompt}\`),
\`[Start a new Chat]\` is empty, four messages are scanned for lore, messages have no names before them, a continuation is a
prefill, the context has 100,000 tokens, and nothing is streamed.

The comparison trims messages, removes empty messages, and joins adjacent messages of one role, except messages with names (example
dialogues). It joins them by a blank line before the conversation and by a line break in it. Everything else counts: roles, names,
order, and every character.

The tables leave out the main prompt at the beginning of a message. \`⏎\` is a line break.

${sectionOf('Not the same yet', open)}${sectionOf('Different on purpose', decided)}## The same

| area | case | what both send |
|---|---|---|
${same.map(({ compared, ours }) => `| ${compared.area} | ${cell(compared.name)} | ${shown(ours)} |`).join('\n')}
`
}

/** A section with a table of cases that differ; an empty text if no case differs. */
function sectionOf(title: string, verdicts: readonly Verdict[]): string {
  if (verdicts.length === 0) return ''
  return `## ${title}

| area | case | what SillyTavern sends | what the service sends | why |
|---|---|---|---|---|
${verdicts.map(rowOfOther).join('\n')}

`
}

function rowOfOther({ compared, theirs, ours }: Verdict): string {
  const { area, name, otherwise = '' } = compared
  return `| ${area} | ${cell(name)} | ${shown(theirs)} | ${shown(ours)} | ${cell(otherwise)} |`
}

const mainPrompt = /^Write \S+'s next reply in a conversation between \S+ and \S+\. Stay in character\.(\n\n)?/

function shown(messages: readonly Told[]): string {
  return messages
    .map(({ role, content, name }) => [name ?? role, content.replace(mainPrompt, '')] as const)
    .filter(([, content]) => content !== '')
    .map(([speaker, content]) => `**${speaker}** ${cell(content)}`)
    .join('<br>')
}

/** A text, escaped for a cell of a Markdown table. */
function cell(text: string): string {
  return text
    .replace(/[\\`*_<>|[\]{}~]/g, (mark) => `\\${mark}`)
    .replaceAll('\r', '')
    .replace(/\n+/g, (breaks) => ` ${'⏎'.repeat(breaks.length)} `)
}
