//! The table of client profiles.

use super::{ClientProfile, ImageSupport, VisibleContent};

/// The date on which the profiles were last verified.
pub const VERIFIED: &str = "2026-11-27";

/// The profile of a client without known limits, to which entries of the table add theirs.
const UNLIMITED: ClientProfile = ClientProfile {
    name: "",
    visible: VisibleContent::Both,
    max_tokens: None,
    max_bytes: None,
    max_characters: None,
    max_lines: None,
    max_error_characters: None,
    cuts_end: false,
    follows_lists: None,
    images: ImageSupport::Unknown,
    source: "",
};

/// The profiles of known clients.
pub const CLIENT_PROFILES: [ClientProfile; 36] = [
    ClientProfile {
        name: "claude-code",
        visible: VisibleContent::Structured,
        // It warns above 10,000 tokens, and writes results above 25,000 to files.
        max_tokens: Some(9_500),
        max_characters: Some(50_000),
        max_error_characters: Some(11_000),
        images: ImageSupport::Native,
        source: "anthropics/claude-code#79944",
        ..UNLIMITED
    },
    ClientProfile {
        name: "codex-mcp-client",
        visible: VisibleContent::Structured,
        // About 10,000, which depends on the model.
        max_tokens: Some(9_500),
        follows_lists: Some(false),
        source: "openai/codex#6544",
        ..UNLIMITED
    },
    ClientProfile {
        name: "cursor-vscode",
        visible: VisibleContent::Both,
        // Reports differ: structured content alone in 2025, text alone in 2026.
        follows_lists: Some(false),
        source: "modelcontextprotocol/modelcontextprotocol#1411, Kashkovsky/threadnote#390",
        ..UNLIMITED
    },
    ClientProfile {
        name: "visual studio code",
        visible: VisibleContent::Structured,
        max_bytes: Some(8_192),
        follows_lists: Some(true),
        images: ImageSupport::Native,
        source: "microsoft/vscode, mcpLanguageModelToolContribution.ts",
        ..UNLIMITED
    },
    ClientProfile {
        name: "code - oss",
        visible: VisibleContent::Structured,
        max_bytes: Some(8_192),
        follows_lists: Some(true),
        images: ImageSupport::Native,
        source: "microsoft/vscode, mcpLanguageModelToolContribution.ts",
        ..UNLIMITED
    },
    ClientProfile {
        name: "github-copilot-developer",
        visible: VisibleContent::Both,
        max_bytes: Some(10_240),
        cuts_end: true,
        follows_lists: Some(false),
        images: ImageSupport::Dropped,
        source: "github/copilot-cli#4515",
        ..UNLIMITED
    },
    ClientProfile {
        name: "gemini-cli-mcp-client",
        visible: VisibleContent::Text,
        max_characters: Some(40_000),
        follows_lists: Some(false),
        images: ImageSupport::Native,
        source: "google-gemini/gemini-cli, mcp-tool.ts",
        ..UNLIMITED
    },
    ClientProfile {
        name: "qwen-cli-mcp-client",
        visible: VisibleContent::Text,
        max_characters: Some(500_000),
        cuts_end: true,
        follows_lists: Some(true),
        images: ImageSupport::Native,
        source: "QwenLM/qwen-code, truncation.ts",
        ..UNLIMITED
    },
    ClientProfile {
        name: "qwen-code",
        visible: VisibleContent::Text,
        max_characters: Some(25_000),
        max_lines: Some(1_000),
        cuts_end: true,
        follows_lists: Some(false),
        images: ImageSupport::Native,
        source: "QwenLM/qwen-code#2446",
        ..UNLIMITED
    },
    ClientProfile {
        name: "opencode",
        visible: VisibleContent::Text,
        max_bytes: Some(51_200),
        max_lines: Some(2_000),
        cuts_end: true,
        follows_lists: Some(true),
        images: ImageSupport::Native,
        source: "anomalyco/opencode, truncate.ts",
        ..UNLIMITED
    },
    ClientProfile {
        name: "kimi-code",
        visible: VisibleContent::Text,
        max_characters: Some(50_000),
        max_error_characters: Some(50_000),
        cuts_end: true,
        follows_lists: Some(false),
        images: ImageSupport::Native,
        source: "MoonshotAI/kimi-code, tool-result-budget.ts",
        ..UNLIMITED
    },
    ClientProfile {
        name: "goose",
        visible: VisibleContent::Text,
        max_characters: Some(200_000),
        follows_lists: Some(true),
        images: ImageSupport::Native,
        source: "aaif-goose/goose, large_response_handler.rs",
        ..UNLIMITED
    },
    ClientProfile {
        name: "crush",
        visible: VisibleContent::Text,
        follows_lists: Some(false),
        images: ImageSupport::Native,
        source: "charmbracelet/crush, mcp-tools.go",
        ..UNLIMITED
    },
    ClientProfile {
        name: "cline",
        visible: VisibleContent::Both,
        // It cuts the middle of the result at 8,000 characters, after writing it as a JSON string.
        max_characters: Some(4_800),
        max_error_characters: Some(4_800),
        follows_lists: Some(false),
        images: ImageSupport::Text,
        source: "cline/cline, message-builder.ts",
        ..UNLIMITED
    },
    ClientProfile {
        name: "@cline/core",
        visible: VisibleContent::Both,
        max_characters: Some(4_800),
        max_error_characters: Some(4_800),
        follows_lists: Some(false),
        images: ImageSupport::Text,
        source: "cline/cline, message-builder.ts",
        ..UNLIMITED
    },
    ClientProfile {
        name: "roo code",
        visible: VisibleContent::Text,
        follows_lists: Some(false),
        images: ImageSupport::Native,
        source: "RooCodeInc/Roo-Code, UseMcpToolTool.ts",
        ..UNLIMITED
    },
    ClientProfile {
        name: "kilo code",
        visible: VisibleContent::Text,
        follows_lists: Some(false),
        images: ImageSupport::Native,
        source: "Kilo-Org/kilocode#823",
        ..UNLIMITED
    },
    ClientProfile {
        name: "continue-client",
        visible: VisibleContent::Text,
        follows_lists: Some(false),
        images: ImageSupport::Dropped,
        source: "continuedev/continue, callTool.ts",
        ..UNLIMITED
    },
    ClientProfile {
        name: "continue-cli-client",
        visible: VisibleContent::Text,
        follows_lists: Some(false),
        images: ImageSupport::Text,
        source: "continuedev/continue, MCPService.ts",
        ..UNLIMITED
    },
    ClientProfile {
        name: "zed",
        visible: VisibleContent::Text,
        follows_lists: Some(false),
        images: ImageSupport::Native,
        source: "zed-industries/zed, context_server_registry.rs",
        ..UNLIMITED
    },
    ClientProfile {
        name: "q dev cli",
        visible: VisibleContent::Both,
        // It repeats the second page of a list for ever, so it gets one page.
        follows_lists: Some(false),
        images: ImageSupport::Text,
        source: "aws/amazon-q-developer-cli, custom_tool.rs",
        ..UNLIMITED
    },
    ClientProfile {
        name: "pi-mcp-",
        visible: VisibleContent::Text,
        max_bytes: Some(51_200),
        max_lines: Some(2_000),
        max_error_characters: Some(51_200),
        cuts_end: true,
        follows_lists: Some(true),
        images: ImageSupport::Native,
        source: "nicobailon/pi-mcp-adapter, mcp-output-guard.ts",
        ..UNLIMITED
    },
    ClientProfile {
        name: "late",
        visible: VisibleContent::Text,
        max_characters: Some(32_768),
        max_error_characters: Some(32_768),
        cuts_end: true,
        follows_lists: Some(true),
        images: ImageSupport::Dropped,
        source: "mlhher/late-cli, client.go",
        ..UNLIMITED
    },
    ClientProfile {
        name: "fast-agent-mcp",
        visible: VisibleContent::Structured,
        max_bytes: Some(16_000),
        max_error_characters: Some(16_000),
        follows_lists: Some(false),
        images: ImageSupport::Native,
        source: "evalstate/fast-agent, tool_result_truncation.py",
        ..UNLIMITED
    },
    ClientProfile {
        name: "mcphost",
        visible: VisibleContent::Both,
        follows_lists: Some(true),
        images: ImageSupport::Text,
        source: "mark3labs/mcphost, fantasy_adapter.go",
        ..UNLIMITED
    },
    ClientProfile {
        name: "mcp-use",
        visible: VisibleContent::Both,
        follows_lists: Some(false),
        images: ImageSupport::Native,
        source: "mcp-use/mcp-use, toolResultParts.ts",
        ..UNLIMITED
    },
    ClientProfile {
        name: "@langchain/mcp-adapters",
        visible: VisibleContent::Both,
        follows_lists: Some(true),
        images: ImageSupport::Native,
        source: "langchain-ai/langchainjs, tools.ts",
        ..UNLIMITED
    },
    ClientProfile {
        name: "ai-sdk-mcp-client",
        visible: VisibleContent::Text,
        follows_lists: Some(false),
        images: ImageSupport::Native,
        source: "vercel/ai, mcp-client.ts",
        ..UNLIMITED
    },
    ClientProfile {
        name: "@librechat/api-client",
        visible: VisibleContent::Text,
        follows_lists: Some(true),
        images: ImageSupport::Native,
        source: "danny-avila/LibreChat, parsers.ts",
        ..UNLIMITED
    },
    ClientProfile {
        name: "llama-webui-mcp",
        visible: VisibleContent::Text,
        follows_lists: Some(false),
        images: ImageSupport::Text,
        source: "ggml-org/llama.cpp, mcp.service.ts",
        ..UNLIMITED
    },
    ClientProfile {
        name: "5ire",
        visible: VisibleContent::Structured,
        follows_lists: Some(true),
        images: ImageSupport::Dropped,
        source: "nanbingxyz/5ire, mcp-tools-manager.ts",
        ..UNLIMITED
    },
    ClientProfile {
        name: "@n8n/n8n-nodes-langchain.mcpclienttool",
        visible: VisibleContent::Text,
        follows_lists: Some(true),
        images: ImageSupport::Text,
        source: "n8n-io/n8n, McpClientTool/utils.ts",
        ..UNLIMITED
    },
    ClientProfile {
        name: "cherry studio",
        visible: VisibleContent::Text,
        follows_lists: Some(false),
        images: ImageSupport::Dropped,
        source: "CherryHQ/cherry-studio, MCPService.ts",
        ..UNLIMITED
    },
    ClientProfile {
        name: "openai-mcp",
        visible: VisibleContent::Both,
        source: "developers.openai.com/apps-sdk/reference",
        ..UNLIMITED
    },
    ClientProfile {
        name: "claude-ai",
        visible: VisibleContent::Text,
        max_characters: Some(150_000),
        follows_lists: Some(false),
        source: "claude.com/docs/connectors/building",
        ..UNLIMITED
    },
    ClientProfile {
        name: "anthropic/claudeai",
        visible: VisibleContent::Both,
        max_characters: Some(150_000),
        follows_lists: Some(false),
        source: "anthropics/claude-code#55677",
        ..UNLIMITED
    },
];
