//! Makes of `include/statestore.h` what the target `calls` calls: each struct and function as Rust declares it, and for each function
//! a call whose arguments are chosen by their types. So a function that is added there is called without anything being added here.
use std::fmt::Write;
use std::path::Path;
use std::{env, fs};

const HEADER: &str = "../include/statestore.h";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed={HEADER}");
    let text = fs::read_to_string(HEADER).expect("the header is there");
    let header = Header::read(&text);
    let folder = env::var("OUT_DIR").expect("cargo says where to");
    fs::write(Path::new(&folder).join("calls.rs"), header.rust()).expect("it can be written");
}

/// A parameter or a field: its type without `struct` and `enum`, and its name.
struct Variable {
    ty: String,
    name: String,
}

impl Variable {
    fn read(text: &str) -> Self {
        let text = text.trim();
        let start = text
            .rfind(|c: char| !c.is_alphanumeric() && c != '_')
            .expect("a type and a name");
        let (ty, name) = text.split_at(start + 1);
        let words = ty.replace('*', " * ");
        let words = words.split_whitespace();
        let words: Vec<_> = words
            .filter(|word| !["struct", "enum"].contains(word))
            .collect();
        Self {
            ty: words.join(" "),
            name: name.to_owned(),
        }
    }

    fn all(text: &str) -> Vec<Self> {
        let all = text.split(',').map(str::trim);
        all.filter(|one| !one.is_empty() && *one != "void")
            .map(Self::read)
            .collect()
    }
}

struct Function {
    result: String,
    name: String,
    parameters: Vec<Variable>,
}

impl Function {
    fn read(text: &str) -> Self {
        let (head, parameters) = text.split_once('(').expect("parameters");
        let head = Variable::read(head);
        Self {
            result: head.ty,
            name: head.name,
            parameters: Variable::all(parameters.trim_end().trim_end_matches(')')),
        }
    }
}

#[derive(Default)]
struct Header {
    enums: Vec<String>,
    /// Types that have handles.
    handles: Vec<String>,
    structs: Vec<(String, Vec<Variable>)>,
    /// Callback types, with the parameters and the result of their functions.
    callbacks: Vec<(String, Function)>,
    functions: Vec<Function>,
}

impl Header {
    fn read(text: &str) -> Self {
        let lines = text
            .lines()
            .filter(|line| !line.trim_start().starts_with(['#', '/']));
        let text = lines.collect::<Vec<_>>().join(" ");
        let text = text.replace("extern \"C\" {", "");
        let mut header = Self::default();
        let mut rest = text.as_str();
        while let Some(end) = rest.find([';', '{']) {
            let head = rest[..end].trim();
            if rest[end..].starts_with(';') {
                match head.strip_prefix("typedef struct ") {
                    Some(names) => header
                        .handles
                        .push(names.split(' ').next().expect("a name").to_owned()),
                    None => header.functions.push(Function::read(head)),
                }
                rest = &rest[end + 1..];
                continue;
            }
            let close = end + rest[end..].find('}').expect("an end");
            let body = &rest[end + 1..close];
            let name = head.split(' ').next_back().expect("a name").to_owned();
            if head.contains("enum") {
                header.enums.push(name);
            } else if body.contains("(*call)") {
                header.callbacks.push((name, Self::callback(body)));
            } else {
                let fields = body.split(';').filter(|field| !field.trim().is_empty());
                header
                    .structs
                    .push((name, fields.map(Variable::read).collect()));
            }
            let name_end = close + rest[close..].find(';').expect("an end");
            rest = &rest[name_end + 1..];
        }
        header
    }

    fn callback(body: &str) -> Function {
        let call = body
            .split(';')
            .find(|field| field.contains("(*call)"))
            .expect("it is there");
        let call = call.replace("(*call)", "call");
        Function::read(call.trim().trim_end_matches(')'))
    }

    /// How Rust says a type of the header: every handle is an address, every enum a number.
    fn rust_type(&self, ty: &str) -> String {
        let known = match ty {
            "void" => "()",
            "bool" => "bool",
            "int" | "int32_t" => "i32",
            "int64_t" => "i64",
            "uint32_t" => "u32",
            "uint64_t" => "u64",
            "size_t" => "usize",
            _ if ty.ends_with('*') => "*mut c_void",
            _ if self.enums.iter().any(|known| known == ty) => "u32",
            _ => ty,
        };
        known.to_owned()
    }

    fn kind(&self, ty: &str) -> Option<usize> {
        let ty = ty.trim_start_matches("const ");
        let name = ty.split(' ').next()?;
        self.handles.iter().position(|known| known == name)
    }

    fn rust(&self) -> String {
        let mut out = String::new();
        let names: Vec<_> = self.handles.iter().map(|name| &name[4..]).collect();
        let _ = writeln!(out, "pub const KINDS: &[&str] = &{names:?};");
        for (name, fields) in &self.structs {
            let _ = writeln!(
                out,
                "#[repr(C)] #[derive(Clone, Copy, Debug)] pub struct {name} {{"
            );
            for field in fields {
                let _ = writeln!(out, "pub {}: {},", field.name, self.rust_type(&field.ty));
            }
            out.push_str("}\n");
            if fields[0].name == "size" {
                self.fill(name, fields, &mut out);
            }
        }
        for (name, call) in &self.callbacks {
            self.told(name, call, &mut out);
        }
        out.push_str("unsafe extern \"C\" {\n");
        for function in &self.functions {
            let parameters = self.parameters(&function.parameters);
            let result = self.rust_type(&function.result);
            let _ = writeln!(out, "pub fn {}({parameters}) -> {result};", function.name);
        }
        out.push_str("}\npub const FUNCTIONS: &[(&str, fn(&mut Call<'_>))] = &[\n");
        for function in &self.functions {
            self.call(function, &mut out);
        }
        out.push_str("];\n");
        out.push_str("pub const FREES: &[unsafe extern \"C\" fn(*mut c_void)] = &[");
        for name in &self.handles {
            let _ = write!(out, "{name}_free,");
        }
        out.push_str("];\n");
        out
    }

    fn parameters(&self, parameters: &[Variable]) -> String {
        let all = parameters
            .iter()
            .map(|it| format!("{}: {}", it.name, self.rust_type(&it.ty)));
        all.collect::<Vec<_>>().join(", ")
    }

    /// How the fields of options are chosen.
    fn fill(&self, name: &str, fields: &[Variable], out: &mut String) {
        let _ = writeln!(
            out,
            "impl SizedStruct for {name} {{ fn choose(call: &mut Call<'_>) -> Self {{"
        );
        let mut lines = String::new();
        let mut done: Vec<&str> = Vec::new();
        for field in fields {
            let name = field.name.as_str();
            let chosen = match (field.ty.as_str(), name) {
                (_, "size") => "size_of::<Self>()".to_owned(),
                (_, name) if name.starts_with("reserved") => "call.rarely() as _".to_owned(),
                (ty, "password" | "holder" | "ca_pem" | "cert_pem" | "key_pem")
                    if ty.ends_with("void *") =>
                {
                    let _ = writeln!(lines, "let ({name}, {name}_len) = call.bytes(\"{name}\");");
                    done.push(name);
                    continue;
                }
                (_, name) if name.ends_with("_len") => continue,
                ("const char *", name) => format!("call.text(\"{name}\")"),
                ("const sst_lease_options *", _) => {
                    "call.options::<sst_lease_options>()".to_owned()
                }
                (ty, _) if ty.ends_with('*') => {
                    let kind = self.kind(ty).expect("a handle");
                    format!("call.handle_or_null({kind})")
                }
                ("uint64_t", name) => format!("call.milliseconds(\"{name}\")"),
                ("uint32_t" | "size_t", name) => format!("call.number(\"{name}\") as _"),
                (ty, name) => panic!("no rule for the field {ty} {name}"),
            };
            let _ = writeln!(lines, "let {name} = {chosen};");
        }
        let names: Vec<_> = fields.iter().map(|field| field.name.as_str()).collect();
        let _ = writeln!(out, "{lines} Self {{ {} }} }} }}", names.join(", "));
    }

    /// The function that a callback calls, as the library sees it.
    fn told(&self, name: &str, call: &Function, out: &mut String) {
        let parameters = self.parameters(&call.parameters);
        let result = self.rust_type(&call.result);
        let _ = writeln!(
            out,
            "#[repr(C)] #[derive(Clone, Copy)] pub struct {name} {{ pub context: *mut c_void, \
             pub call: Option<unsafe extern \"C\" fn({parameters}) -> {result}>, \
             pub drop: Option<unsafe extern \"C\" fn(*mut c_void)> }}"
        );
        let _ = writeln!(
            out,
            "unsafe extern \"C\" fn call_{name}({parameters}) -> {result} {{"
        );
        out.push_str("let mut told = CallbackInvocation::new(context);\n");
        for parameter in &call.parameters[1..] {
            let Variable { ty, name } = parameter;
            let told = match (ty.as_str(), name.as_str()) {
                ("sst_status", _) => {
                    let mut all = call.parameters.iter();
                    let error = all.find(|it| it.ty == "const sst_error *");
                    format!("told.status({name}, {})", error.expect("it has one").name)
                }
                ("const sst_error *", _) => continue,
                ("sst_bytes * *", _) => format!("told.wants({name})"),
                ("const char *", _) => format!("told.text({name})"),
                (ty, _) => match self.kind(ty) {
                    Some(kind) if ty.starts_with("const") => format!("told.lent({kind}, {name})"),
                    Some(kind) => format!("told.given({kind}, {name})"),
                    None if ty.ends_with('*') => format!("told.shown({name})"),
                    None => format!("told.number({name})"),
                },
            };
            let _ = writeln!(out, "{told};");
        }
        let end = if result == "()" {
            "told.end();"
        } else {
            "told.answer()"
        };
        let _ = writeln!(out, "{end} }}");
    }

    /// A call with arguments that are chosen, and the look at its results.
    fn call(&self, function: &Function, out: &mut String) {
        let name = &function.name;
        let _ = writeln!(out, "(\"{name}\", |call| {{");
        let mut given = Vec::new();
        let mut parameters = function.parameters.iter().enumerate();
        while let Some((at, parameter)) = parameters.next() {
            let Variable { ty, name } = parameter;
            let next = function.parameters.get(at + 1);
            let is_counted = next.is_some_and(|next| {
                next.ty == "size_t" && (next.name.ends_with("len") || next.name == "count")
            });
            let chosen = match (ty.as_str(), name.as_str()) {
                ("sst_error * *", _) => "call.error()".to_owned(),
                (many @ ("const void *" | "const sst_slice *" | "const sst_pair *"), _)
                    if is_counted =>
                {
                    let what = match many {
                        "const void *" => "bytes",
                        "const sst_slice *" => "slices",
                        _ => "pairs",
                    };
                    let _ = writeln!(out, "let (a{at}, a{}) = call.{what}(\"{name}\");", at + 1);
                    given.push(format!("a{at}"));
                    given.push(format!("a{}", at + 1));
                    parameters.next();
                    continue;
                }
                ("const sst_slice *", _) => "call.slice()".to_owned(),
                ("const char *", _) => format!("call.text(\"{name}\")"),
                ("uint64_t", _) => "call.timeout()".to_owned(),
                ("size_t" | "uint32_t" | "int32_t" | "int64_t", _) => {
                    format!("call.number(\"{name}\") as _")
                }
                (ty, _) if ty.ends_with("* *") => {
                    format!("call.out_handle({})", self.kind(ty).expect("a handle"))
                }
                (ty, _) if ty.ends_with('*') => match self.kind(ty) {
                    Some(kind) => format!("call.handle({kind})"),
                    None => {
                        let of = ty.trim_start_matches("const ").trim_end_matches(" *");
                        let is_struct = self.structs.iter().any(|(known, _)| known == of);
                        match is_struct {
                            true if ty.starts_with("const") => format!("call.options::<{of}>()"),
                            true => format!("call.filled::<{of}>()"),
                            false => {
                                format!("call.out_value::<{}>(\"{name}\")", self.rust_type(of))
                            }
                        }
                    }
                },
                (ty, _) => {
                    let _ = writeln!(
                        out,
                        "let c = call.closure(\"{ty}\"); let a{at} = {ty} {{ context: c.context, \
                         call: c.has_call.then_some(call_{ty} as _), drop: c.drop }};"
                    );
                    given.push(format!("a{at}"));
                    continue;
                }
            };
            let _ = writeln!(out, "let a{at} = {chosen};");
            given.push(format!("a{at}"));
        }
        let _ = writeln!(
            out,
            "if !call.begins() {{ return; }} let result = unsafe {{ {name}({}) }};",
            given.join(", ")
        );
        let is_status = (function.parameters.last()).is_some_and(|it| it.ty == "sst_error * *");
        let ended = match function.result.as_str() {
            "void" => "call.ended(result)".to_owned(),
            "sst_status" if is_status => "call.status(result)".to_owned(),
            ty => match self.kind(ty).filter(|_| ty.ends_with('*')) {
                Some(kind) => format!("call.given({kind}, result)"),
                None => "call.value(result)".to_owned(),
            },
        };
        let _ = writeln!(out, "{ended}; }}),");
    }
}
