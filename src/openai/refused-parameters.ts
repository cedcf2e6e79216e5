import { ApiError, invalidField } from '../errors.ts'
import { field } from '../fields.ts'
import { CompletionRequest } from './completion-request.ts'

/*
 * Parameters of a caller with which an upstream would do more than answer with the model that the caller may use. All other
 * parameters pass, because OpenAI-compatible services have hundreds of them (docs/decisions/0029).
 */

/** What a parameter chooses at an upstream. */
type Choice = 'host' | 'credential' | 'code' | 'model or provider'

/**
 * Parameters that are removed, and named in `x-ignored-params`: client libraries have them as options, and some send them in each
 * request (docs.litellm.ai/docs/completion/input; "Undocumented request params" in the README of openai-python).
 */
export const removedParameters: readonly string[] = ['api_base', 'base_url', 'api_key', 'extra_headers', 'extra_body']

/** Parameters that are refused, all for the same reason, and the document that describes them. */
interface Refused {
  readonly chooses: Choice
  /** The names, with blanks between them. A `*` at the end stands for all names with this beginning. */
  readonly names: string
  readonly source: string
}

/** Where a LiteLLM proxy reports a request, and with which key. It reads these parameters from `metadata` too. */
const reporting: Refused = {
  chooses: 'host',
  names:
    'langfuse_host langfuse_public_key langfuse_secret langfuse_secret_key langsmith_api_key langsmith_base_url langsmith_tenant_id arize_api_key arize_space_id arize_space_key posthog_api_key posthog_api_url posthog_host braintrust_api_key braintrust_host humanloop_api_key lunary_public_key gcs_bucket_name gcs_path_service_account slack_webhook_url wandb_api_key dd_api_key dd_site dd_agent_host dd_agent_port',
  source: 'BerriAI/litellm: litellm/litellm_core_utils/initialize_dynamic_callback_params.py, proxy/auth/auth_utils.py',
}

const refused: readonly Refused[] = [
  reporting,
  {
    chooses: 'host',
    names: `${removedParameters.join(' ')} headers model_list context_window_fallbacks context_window_fallback_dict`,
    source: 'docs.litellm.ai/docs/completion/input',
  },
  {
    chooses: 'host',
    names: 'user_config custom_llm_provider content_policy_fallbacks litellm_params',
    source: 'docs.litellm.ai/docs/proxy/clientside_auth and /docs/proxy/reliability',
  },
  {
    chooses: 'host',
    names: 's3_endpoint_url sagemaker_base_url deployment_url litellm_embedding_config litellm_metadata',
    source: 'BerriAI/litellm: litellm/proxy/auth/auth_utils.py (the list of refused parameters)',
  },
  {
    chooses: 'credential',
    names: 'vertex_* aws_* azure_* litellm_credential_name',
    source:
      'docs.litellm.ai/docs/providers/vertex, /docs/providers/bedrock, /docs/providers/azure and /docs/proxy/ui_credentials',
  },
  {
    chooses: 'host',
    names: 'server_url mcp_servers',
    source:
      'platform.openai.com/docs/guides/tools-connectors-mcp, docs.claude.com/en/docs/agents-and-tools/mcp-connector',
  },
  {
    chooses: 'credential',
    names: 'connector_id authorization authorization_token',
    source:
      'platform.openai.com/docs/guides/tools-connectors-mcp, docs.claude.com/en/docs/agents-and-tools/mcp-connector',
  },
  { chooses: 'credential', names: 'byok', source: 'vercel.com/docs/ai-gateway/authentication-and-byok/byok' },
  {
    chooses: 'host',
    names: 'data_sources dataSources',
    source: 'learn.microsoft.com/azure/ai-services/openai/references/on-your-data (dataSources in older versions)',
  },
  {
    chooses: 'host',
    names: 'bootstrap_host bootstrap_port bootstrap_room',
    source: 'sgl-project/sglang: python/sglang/srt/entrypoints/openai/protocol.py ("For PD disaggregation")',
  },
  {
    chooses: 'host',
    names: 'kv_transfer_params',
    source: 'vllm-project/vllm: vllm/entrypoints/openai/protocol.py (extra parameters of chat; also in vllm_xargs)',
  },
  {
    chooses: 'code',
    names: 'chat_template logits_processors',
    source:
      'docs.vllm.ai/en/latest/serving/openai_compatible_server ("Extra parameters"); a template in chat_template_kwargs: CVE-2025-61620',
  },
  { chooses: 'code', names: 'custom_logit_processor', source: 'docs.sglang.io/docs/basic_usage/sampling_params' },
  {
    // A LoRA changes the weights, and SGLang's is a path.
    chooses: 'code',
    names: 'lora*',
    source: 'sgl-project/sglang: protocol.py, as above (lora_path); ggml-org/llama.cpp: tools/server/README.md (lora)',
  },
  {
    chooses: 'code',
    names: 'adapter_id adapter_source merged_adapters api_token',
    source: 'predibase/lorax: router/src/lib.rs (GenerateParameters)',
  },
  {
    chooses: 'code',
    names: 'chat_template_str instruction_template_str',
    source: 'oobabooga/text-generation-webui: extensions/openai/typing.py (ChatCompletionRequestParams)',
  },
  { chooses: 'code', names: 'backend', source: 'mudler/LocalAI: core/schema/openai.go (OpenAIRequest)' },
  {
    chooses: 'model or provider',
    names: 'models route provider plugins preset',
    source: 'openrouter.ai/docs/api-reference/overview and /docs/features/presets',
  },
  {
    chooses: 'model or provider',
    names: 'fallbacks deployment_id',
    source: 'docs.litellm.ai/docs/proxy/client_side_fallbacks and /docs/completion/input',
  },
  { chooses: 'model or provider', names: 'draft_model', source: 'lmstudio.ai/docs/app/advanced/speculative-decoding' },
  {
    chooses: 'model or provider',
    names: 'providerOptions',
    source: 'vercel.com/docs/ai-gateway/models-and-providers/provider-options',
  },
]

/** The names of all refused parameters, as the documents list them. */
export const refusedParameters: readonly string[] = refused.flatMap(namesIn)

function namesIn({ names }: Refused): readonly string[] {
  return names.split(' ')
}

interface Rule {
  readonly name: string
  readonly chooses: Choice
}

const rules = refused.flatMap((row) => namesIn(row).map((name): Rule => ({ name, chooses: row.chooses })))
const rulesByName: ReadonlyMap<string, Rule> = new Map(rules.map((rule) => [fold(rule.name), rule]))
const rulesOfBeginnings = rules.filter(({ name }) => name.endsWith('*'))

/**
 * A name in small letters. Servers in Go read names in capital letters too, also with ſ for s and the Kelvin sign for k
 * (pkg.go.dev/encoding/json, "Unmarshal").
 */
function fold(name: string): string {
  return name.toUpperCase().toLowerCase()
}

function ruleOf(name: string): Rule | undefined {
  const folded = fold(name)
  return rulesByName.get(folded) ?? rulesOfBeginnings.find((rule) => folded.startsWith(rule.name.slice(0, -1)))
}

/** What a parameter chooses at an upstream, as the end of a sentence. Undefined for a parameter that passes. */
export function choiceOf(name: string): string | undefined {
  const choice = ruleOf(name)?.chooses
  if (choice === undefined) return undefined
  return choice === 'code' ? 'the code, template or weights of the upstream' : `another ${choice} at the upstream`
}

type IsRefused = (rule: Rule) => boolean

function isAlwaysRefused({ chooses }: Rule): boolean {
  return chooses !== 'model or provider'
}

const reportingNames = namesIn(reporting)

/**
 * The parameters inside of which upstreams read further parameters, and which names are refused there. Callers choose the names in
 * `metadata` freely, so only those are refused that a LiteLLM proxy reads there.
 */
const containers: ReadonlyMap<string, IsRefused> = new Map([
  ['tools', isAlwaysRefused],
  ['tool_choice', isAlwaysRefused],
  ['response_format', isAlwaysRefused],
  ['chat_template_kwargs', isAlwaysRefused],
  ['vllm_xargs', isAlwaysRefused],
  ['provideroptions', isAlwaysRefused],
  ['metadata', ({ name }: Rule) => reportingNames.includes(name)],
])

/**
 * Checks that no parameter of a caller chooses a host, a credential or code at the upstream, also inside of tools and of other
 * parameters. If the caller has a list of models, no parameter may choose another model or provider either. null chooses nothing.
 * @param allowed names, also with `*`, that pass
 * @throws ApiError 400 `refused_parameter` that names the first such parameter
 */
export function checkParameters(sent: object, allowed: readonly string[], hasModelList: boolean): void {
  for (const [name, value] of Object.entries(sent)) {
    if (value == null) continue
    const folded = fold(name)
    const isRefusedInside = containers.get(folded)
    if (isRefusedInside && typeof value === 'object') checkInside(value, name, isRefusedInside, allowed)
    if (Object.hasOwn(CompletionRequest.properties, name)) continue
    if (Object.hasOwn(CompletionRequest.properties, folded)) {
      throw refusal(name, `is read as "${folded}" by some upstreams. Write its name in small letters`)
    }
    checkName(name, name, (rule) => hasModelList || isAlwaysRefused(rule), allowed)
  }
}

/** The most fields inside of one parameter, besides those of functions. OpenAI's `metadata` has at most 16. */
const maxFields = 5000

/**
 * Keywords of JSON Schema under which the caller chooses the names (json-schema.org, "Understanding JSON Schema"), and the examples
 * of a tool of Claude. No upstream reads its own parameters there.
 */
const freeNames: ReadonlySet<string> = new Set(
  'properties patternProperties $defs definitions dependentSchemas default const enum examples input_examples'.split(
    ' ',
  ),
)

/** Checks the names in a value, at any depth. @throws ApiError 400 also for more than `maxFields` fields */
function checkInside(value: object, path: string, isRefused: IsRefused, allowed: readonly string[]): void {
  const found: [object: object, path: string][] = [[value, path]]
  let fields = 0
  for (const [object, at] of found) {
    for (const [name, item] of Object.entries(object)) {
      if (++fields > maxFields) throw invalidField(path, `has more than ${maxFields} fields inside. Send fewer`)
      if (item === null || freeNames.has(name) || isFunctionOf(object, name)) continue
      const place = pathOf(object, at, name)
      checkName(name, place, isRefused, allowed)
      if (typeof item === 'object') found.push([item, place])
    }
  }
}

/** Whether a field of a tool is its function, whose schema may give any names to its arguments. */
function isFunctionOf(tool: object, name: string): boolean {
  return (name === 'function' || name === 'custom') && field(tool, 'type') === name
}

function pathOf(object: object, at: string, name: string): string {
  return Array.isArray(object) ? `${at}[${name}]` : `${at}.${name}`
}

/** The most characters of a path in an error: the names inside of tools may have thousands. */
const maxPathLength = 200

function checkName(name: string, path: string, isRefused: IsRefused, allowed: readonly string[]): void {
  const rule = ruleOf(name)
  if (!rule || !isRefused(rule) || allowed.includes(name) || allowed.includes(rule.name)) return
  const param = path.length > maxPathLength ? rule.name : path
  throw refusal(param, `would choose ${choiceOf(rule.name)}. Leave it out, or ask the operator to allow it`)
}

function refusal(param: string, problem: string): ApiError {
  return new ApiError(400, 'refused_parameter', `The field "${param}" ${problem}.`, { param })
}
