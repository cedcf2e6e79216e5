import { builtInSystemPrompt } from '../../../src/characters/prompt/composition.ts'
import type { Told } from './case.ts'
import { isSame, type Verdict } from './comparison.ts'
import { version } from './program.ts'

/** The page `docs/sillytavern.md` as Markdown: what was compared, and each case that differs, with the reason. */
export function guideOf(verdicts: readonly Verdict[]): string {
  const same = verdicts.filter(isSame)
  const different = verdicts.filter((verdict) => !isSame(verdict))
  return `# Comparison with SillyTavern

A card that works in SillyTavern works here: ${same.length} of ${verdicts.length} compared cases have the same prompt, and ${different.length} differ on purpose. A
case is one conversation with one card and the same settings, in SillyTavern (\`${version}\`)
and in [\`POST /chat/prompt\`](interfaces.md#routes). \`npm run trials -- compare\` runs the cases, and writes this page and
[the prompts of all cases](../test/fixtures/sillytavern-comparison.md).

## Different on purpose

| area | case | why |
|---|---|---|
${different.map(({ compared }) => `| ${compared.area} | ${cell(compared.name)} | ${cell(compared.otherwise ?? 'not the same yet')} |`).join('\n')}
`
}

/** The prompts of all cases as Markdown, for `test/fixtures/sillytavern-comparison.md`. */
export function promptsOf(verdicts: readonly Verdict[]): string {
  const same = verdicts.filter(isSame)
  const decided = verdicts.filter((verdict) => !isSame(verdict) && verdict.compared.otherwise !== undefined)
  const open = verdicts.filter((verdict) => !isSame(verdict) && verdict.compared.otherwise === undefined)
  return `# The prompts of SillyTavern and of the service

\`npm run trials -- compare\` writes this file and [the guide](../../docs/sillytavern.md). The tables leave out the main prompt at the beginning
of a message. \`⏎\` is a line break.

## How they were compared

SillyTavern has the settings of a fresh installation, with these exceptions: the main prompt is the service's own
(\`${builtInSystemPrompt}\`),
\`[Start a new Chat]\` is empty, four messages are scanned for lore, messages have no names before them, a continuation is a
prefill, the context has 100,000 tokens, and nothing is streamed.

The comparison trims messages, removes empty messages, and joins adjacent messages of one role, except messages with names (example
dialogues). It joins them by a blank line before the conversation and by a line break in it. Everything else counts: roles, names,
order, and every character.

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
