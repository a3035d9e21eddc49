import { query } from '@anthropic-ai/claude-agent-sdk';

// A conversation with the tools of Placet and no others, and a model: on Messages.
export function ask({ mcp, models, token, model, prompt, home, ...options }) {
	return query({
		prompt,
		options: {
			model,
			cwd: home,
			mcpServers: { placet: { type: 'http', url: mcp, headers: { Authorization: `Bearer ${token}` } } },
			allowedTools: ['mcp__placet__*'], // Placet decides, not the client's own question
			tools: [],
			settingSources: [],
			env: {
				PATH: process.env.PATH,
				HOME: home,
				ANTHROPIC_BASE_URL: `${models}/anthropic`,
				ANTHROPIC_AUTH_TOKEN: token,
				ENABLE_TOOL_SEARCH: 'false', // offer the model all tools by name
				CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
			},
			...options,
		},
	});
}
