//! The shipped files for Kubernetes and containers: rendered by kustomize, validated with published
//! schemas, and consistent with each other and with the program.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use context_guard::document;
use context_guard_test_support::gateway::{HttpClient, Process, get};
use context_guard_test_support::{Context, Result, artifacts, ensure, peers};
use serde_json::{Value, json};

fn shipped(path: &str) -> PathBuf {
    artifacts::root().join("packaging").join(path)
}

fn support(path: &str) -> PathBuf {
    artifacts::root().join("tests/support/manifests").join(path)
}

/// Runs a command with a text as standard input, and returns its standard output.
fn run(command: &mut Command, input: &str) -> Result<String> {
    let name = format!("{command:?}");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    child.stdin.take().context("no input")?.write_all(input.as_bytes())?;
    let output = child.wait_with_output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{name}: {errors}");
    Ok(String::from_utf8(output.stdout)?)
}

fn documents(text: &str) -> Result<Vec<Value>> {
    let file = Path::new("manifests.yaml");
    text.split("\n---\n").map(|one| Ok(document::parse(file, one)?)).collect()
}

/// Renders a folder of packaging/kubernetes, and returns the text with its resources.
fn rendered(folder: &str) -> Result<(String, Vec<Value>)> {
    let folder = shipped("kubernetes").join(folder);
    let text = run(Command::new(artifacts::kubectl()?).arg("kustomize").arg(folder), "")?;
    let resources = documents(&text)?;
    Ok((text, resources))
}

fn find<'a>(resources: &'a [Value], kind: &str) -> Result<&'a Value> {
    resources.iter().find(|one| one["kind"] == kind).with_context(|| format!("no {kind}"))
}

/// Validates resources and Compose files. Returns the number of what was validated.
fn validate(text: &str, files: &[PathBuf]) -> Result<u32> {
    let python = artifacts::peers()?.join("manifests/bin/python");
    let mut command = Command::new(python);
    let validated = run(command.arg(support("validate.py")).args(files), text)?;
    Ok(validated.trim().parse()?)
}

/// Validates custom resources. Returns their number.
fn validate_custom(resources: &[&Value]) -> Result<u32> {
    let lines: String = resources.iter().map(|one| format!("{one}\n")).collect();
    let mut command = Command::new("node");
    let folder = artifacts::peers()?.join("kubernetes");
    let validated = run(command.arg(support("validate.mjs")).arg(folder), &lines)?;
    Ok(validated.trim().parse()?)
}

#[test]
fn kubernetes_resources_match_their_schemas() -> Result<()> {
    let (text, resources) = rendered(".")?;
    let kinds: Vec<&str> = resources.iter().filter_map(|one| one["kind"].as_str()).collect();
    ensure!(kinds.first() == Some(&"Namespace"), "{kinds:?}");
    for kind in [
        "Deployment",
        "HorizontalPodAutoscaler",
        "PodDisruptionBudget",
        "NetworkPolicy",
        "ServiceMonitor",
    ] {
        ensure!(kinds.contains(&kind), "{kind}: {kinds:?}");
    }
    ensure!(validate(&text, &[])? == 8, "{kinds:?}");
    ensure!(validate_custom(&[find(&resources, "ServiceMonitor")?])? == 1);
    let (_, base) = rendered("base")?;
    ensure!(base.len() + 1 == resources.len());
    // The schemas find mistakes.
    ensure!(validate(&text.replace("minReplicas: 2", "minReplicas: two"), &[]).is_err());
    ensure!(validate(&text.replace("readinessProbe", "readynessProbe"), &[]).is_err());
    let mut monitor = find(&resources, "ServiceMonitor")?.clone();
    monitor["spec"]["endpoints"][0]["port"] = json!(8809);
    ensure!(validate_custom(&[&monitor]).is_err());
    Ok(())
}

#[test]
fn kubernetes_resources_refer_to_each_other() -> Result<()> {
    let (_, resources) = rendered(".")?;
    let spec = &find(&resources, "Deployment")?["spec"];
    let labels = &spec["template"]["metadata"]["labels"];
    let pod = &spec["template"]["spec"];
    let container = &pod["containers"][0];
    let names = |list: &Value, name: &str| -> Vec<String> {
        let items = list.as_array().into_iter().flatten();
        items.filter_map(|item| item[name].as_str().map(str::to_owned)).collect()
    };
    let ports = names(&container["ports"], "name");
    let service = &find(&resources, "Service")?["spec"];
    ensure!(&service["selector"] == labels && &spec["selector"]["matchLabels"] == labels);
    ensure!(names(&service["ports"], "targetPort") == ports, "{service}");
    let monitor = &find(&resources, "ServiceMonitor")?["spec"];
    ensure!(&monitor["selector"]["matchLabels"] == labels);
    ensure!(names(&monitor["endpoints"], "port") == ["admin"]);
    ensure!(names(&service["ports"], "name").contains(&"admin".to_owned()));
    let budget = &find(&resources, "PodDisruptionBudget")?["spec"];
    ensure!(&budget["selector"]["matchLabels"] == labels);
    let scaled = &find(&resources, "HorizontalPodAutoscaler")?["spec"]["scaleTargetRef"];
    ensure!(scaled["kind"] == "Deployment" && scaled["name"] == "context-guard");
    ensure!(container["resources"]["requests"]["cpu"].is_string(), "the autoscaler needs it");
    let policy = &find(&resources, "NetworkPolicy")?["spec"];
    for rule in policy["ingress"].as_array().context("no rules")? {
        for port in names(&rule["ports"], "port") {
            ensure!(ports.contains(&port), "{port}: {ports:?}");
        }
    }
    // The gateway drains its requests before the pod is killed.
    let sleep = container["lifecycle"]["preStop"]["sleep"]["seconds"].as_u64().context("sleep")?;
    let grace = pod["terminationGracePeriodSeconds"].as_u64().context("grace period")?;
    ensure!(sleep + 20 <= grace, "{sleep} s and limits.drainSeconds, but {grace} s");
    // The document creates the secret with each file that the gateway reads.
    let page = std::fs::read_to_string(artifacts::root().join("docs/how-to/run-on-kubernetes.md"))?;
    let config = find(&resources, "ConfigMap")?;
    let gateway = config["data"]["gateway.yaml"].as_str().context("no gateway file")?;
    ensure!(gateway.matches("/etc/context-guard/secret/").count() == 3, "{gateway}");
    for file in gateway.split("/etc/context-guard/secret/").skip(1) {
        let file: String =
            file.chars().take_while(|c| c.is_alphanumeric() || ".-".contains(*c)).collect();
        ensure!(page.contains(&format!("{file}=")) || page.contains(&format!("={file}")), "{file}");
    }
    let key = &monitor["endpoints"][0]["authorization"]["credentials"];
    ensure!(key["name"] == pod["volumes"][1]["secret"]["secretName"], "{key}");
    ensure!(gateway.contains(key["key"].as_str().context("no key")?), "{key}");
    Ok(())
}

/// Starts the program with a shipped gateway file, whose paths and ports are those of this test.
/// Returns it with the addresses of the endpoint and of the admin API.
fn serve(file: &Path, folder: &Path) -> Result<(Process, String, Option<String>)> {
    let port =
        || -> Result<u16> { Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port()) };
    let (main, admin) = (port()?, port()?);
    let program = artifacts::program()?;
    let text = std::fs::read_to_string(file)?
        .replace("/etc/context-guard/secret", &folder.display().to_string())
        .replace("/usr/bin/context-guard", &program.display().to_string())
        .replace("0.0.0.0:8808", &format!("0.0.0.0:{main}"))
        .replace("0.0.0.0:8809", &format!("0.0.0.0:{admin}"));
    let config = folder.join("gateway.yaml");
    let has_admin = text.contains("admin:");
    std::fs::write(&config, text)?;
    let mut command = Command::new(program);
    command.arg("serve").arg("--config").arg(config).env("XDG_STATE_HOME", folder);
    let process = Process::start(command, false, "serving")?;
    let admin = has_admin.then(|| format!("http://127.0.0.1:{admin}"));
    Ok((process, format!("http://127.0.0.1:{main}"), admin))
}

/// Fails unless a call through the gateway at `url` is answered with a page.
fn assert_guarded(url: &str, headers: &[(&str, &str)]) -> Result<()> {
    let mut client = HttpClient::open(&format!("{url}/mcp"), headers, json!({}))?;
    let answer = client.call("list_bookings", json!({}))?;
    ensure!(answer.metadata()["meta"]["totalCount"] == 500, "{}", answer.0);
    Ok(())
}

#[test]
fn gateway_file_of_kubernetes_serves() -> Result<()> {
    let folder = peers::folder("kubernetes-gateway")?;
    let key = crate::access::key(&folder.join("keys.json"), "client")?;
    std::fs::write(folder.join("admin-token"), "0123456789abcdef0123456789abcdef")?;
    std::fs::write(folder.join("signing-key"), "c2lnbmluZyBrZXkgb2YgYSB0ZXN0LCAzMiBieXRlcw")?;
    let file = shipped("kubernetes/base/gateway.yaml");
    let (_process, url, admin) = serve(&file, &folder)?;
    let admin = admin.context("no admin address")?;
    // Probes of the kubelet have no key. They name the address of the pod.
    for path in ["/healthz", "/readyz"] {
        let reply = get(&format!("{url}{path}"), &[("host", "10.1.2.3:8808")])?;
        ensure!(reply.status == 200, "{path}: {}", reply.status);
    }
    ensure!(get(&format!("{url}/mcp"), &[])?.status == 401);
    assert_guarded(&url, &[("authorization", &format!("Bearer {key}"))])?;
    let token = "Bearer 0123456789abcdef0123456789abcdef";
    let metrics = get(&format!("{admin}/metrics"), &[("authorization", token)])?;
    ensure!(metrics.status == 200 && metrics.body.contains("context_guard_requests_total"));
    Ok(())
}

#[test]
fn compose_file_is_valid_and_its_gateway_serves() -> Result<()> {
    let file = shipped("container/compose.yaml");
    ensure!(validate("", std::slice::from_ref(&file))? == 1);
    let compose = documents(&std::fs::read_to_string(&file)?)?.pop().context("no document")?;
    let build = &compose["services"]["context-guard"]["build"];
    let container = shipped("container");
    // The folder of the program exists after a release build only, so links are not followed.
    let mut recipe = container.clone();
    for name in ["context", "dockerfile"] {
        for part in Path::new(build[name].as_str().context("no path")?).components() {
            if part.as_os_str() == ".." {
                recipe.pop();
            } else {
                recipe.push(part);
            }
        }
    }
    ensure!(recipe == container.join("Containerfile") && recipe.is_file(), "{}", recipe.display());
    // Clients of https:// servers trust the authorities of the system only.
    ensure!(std::fs::read_to_string(&recipe)?.contains("ca-certificates"));
    let (_process, url, _) =
        serve(&container.join("gateway.yaml"), &peers::folder("compose-gateway")?)?;
    assert_guarded(&url, &[])
}

#[test]
fn recipe_for_istio_matches_its_schema() -> Result<()> {
    let file = artifacts::root().join("examples/istio/context-guard.yaml");
    let filter = documents(&std::fs::read_to_string(file)?)?.pop().context("no document")?;
    ensure!(validate_custom(&[&filter])? == 1);
    let mut wrong = filter;
    wrong["spec"]["configPatches"][0]["applyTo"] = json!("EXTENSION");
    ensure!(validate_custom(&[&wrong]).is_err());
    Ok(())
}
