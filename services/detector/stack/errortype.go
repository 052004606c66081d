package stack

import "strings"

// maxType is the longest name of a type, in bytes.
const maxType = 160

// uncaughtPrefixes are the texts before the type of an uncaught error.
var uncaughtPrefixes = [...]string{
	"Uncaught (in promise) ", "Uncaught ", "Unhandled rejection: ", "Unhandled Rejection: ", "Unhandled exception. ",
	"Unhandled exception: ", "PHP Fatal error:  Uncaught ", "Fatal error: Uncaught ", "Exception in thread ", "error: Uncaught ",
}

// uncaughtType returns the type of the uncaught exception in a message, or "" if the message
// may be other logged text.
func uncaughtType(message string) string {
	rest := withoutUncaught(message)
	if len(rest) == len(message) {
		return ""
	}
	return parseType(rest, false)
}

func withoutUncaught(text string) string {
	for _, before := range uncaughtPrefixes {
		if rest, ok := strings.CutPrefix(text, before); ok {
			if before == "Exception in thread " && strings.HasPrefix(rest, `"`) { // "main"
				if end := strings.Index(rest[1:], `" `); end >= 0 {
					rest = rest[1+end+2:]
				}
			}
			if before == "error: Uncaught " { // Deno
				rest = strings.TrimPrefix(rest, "(in promise) ")
			}
			return rest
		}
	}
	return text
}

// parseType returns the type at the beginning of a line of a trace, or "". If it is certain
// that a type is there, any name is one. Otherwise the name must look like a type, because many
// logged lines begin with a word and a colon.
func parseType(line string, certain bool) string {
	line = line[:min(len(line), 4*maxType)]
	line = withoutUncaught(line)
	if strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") {
		return "panic"
	}
	n := 0
	for n < len(line) && isNameByte(line[n]) {
		n++
	}
	for n > 0 && line[n-1] == ':' { // the colon behind the name belongs to no ::
		n--
	}
	if n == 0 || n > maxType {
		return ""
	}
	name, rest := line[:n], line[n:]
	switch {
	case rest == "", strings.HasPrefix(rest, ": "), rest == ":", strings.HasPrefix(rest, " ("):
	case strings.HasPrefix(rest, " ["): // Error [ERR_INVALID_ARG_TYPE]: ...
		code := strings.IndexByte(rest, ']')
		if code < 0 || !isName(rest[2:code]) {
			return ""
		}
		name = line[:n+code+1]
	default:
		return ""
	}
	if !certain && !looksLikeType(line[:n]) || isDigit(name[0]) {
		return ""
	}
	return strings.TrimLeft(name, "*&")
}

// isNameByte reports whether a byte may be part of the name of a type with its package.
func isNameByte(c byte) bool {
	return isLetter(c) || isDigit(c) || c == '_' || c == '.' || c == '$' || c == '\\' || c == ':' || c == '/' || c == '*' || c >= 0x80
}

func isName(text string) bool {
	if text == "" || len(text) > maxType {
		return false
	}
	for i := range len(text) {
		if !isNameByte(text[i]) {
			return false
		}
	}
	return true
}

// looksLikeType reports whether a name looks like a type: by its last part, or by a
// package before a part that begins with a capital.
func looksLikeType(name string) bool {
	last := lastName(name)
	if strings.Contains(last, "Error") || strings.Contains(last, "Exception") {
		return true
	}
	for _, end := range [...]string{"Fault", "Failure", "Interrupt", "Iteration", "errorString", "wrapError"} {
		if strings.HasSuffix(last, end) {
			return true
		}
	}
	return last != "" && len(last) < len(name) && last[0] >= 'A' && last[0] <= 'Z' && strings.IndexByte(name, '/') < 0
}

// lastName returns the last part of a qualified name.
func lastName(name string) string {
	if end := strings.IndexByte(name, ' '); end > 0 { // Error [CODE]
		return name
	}
	i := len(name)
	for i > 0 && strings.IndexByte(".\\:/$#", name[i-1]) < 0 {
		i--
	}
	return name[i:]
}

// isCommon reports whether many different errors have a type.
func isCommon(errorType string) bool {
	name := lastName(errorType)
	return commonTypes[name] || isGeneral(name)
}

// isGeneral reports whether a name consists only of words of systems and libraries, as
// ApiException, SQLAlchemyError and WebClientResponseException do. Such types wrap the
// failure of any of an app's requests.
func isGeneral(name string) bool {
	rest, ok := strings.CutSuffix(name, "Exception")
	if !ok {
		if rest, ok = strings.CutSuffix(name, "Error"); !ok {
			return false
		}
	}
	for rest != "" {
		var lower [16]byte
		n := wordEnd(rest)
		if n > len(lower) {
			return false
		}
		for i := range n {
			lower[i] = rest[i]
			if c := rest[i]; c >= 'A' && c <= 'Z' {
				lower[i] |= 0x20
			}
		}
		if !generalWords[string(lower[:n])] {
			return false
		}
		rest = rest[n:]
	}
	return true
}

// wordEnd returns the end of the first word of a name: Web in WebClient, HTTP in HTTPStatus.
func wordEnd(name string) int {
	capital := func(i int) bool { return i < len(name) && name[i] >= 'A' && name[i] <= 'Z' }
	n := 1
	for n < len(name) && capital(n-1) && capital(n) && (n+1 == len(name) || capital(n+1)) {
		n++
	}
	for n < len(name) && !capital(n) {
		n++
	}
	return n
}

// generalWords are the words in the names of general types, in lower case.
var generalWords = setOf(
	"api app application http https rest rpc grpc trpc graphql soap web net network remote client server service backend gateway proxy",
	"request response status code result call op operation invocation connect connection transport protocol socket stream io url timeout read write",
	"internal external base custom generic general common default unknown known unexpected unhandled uncaught fatal critical error exception",
	"runtime system process processing execution task job worker business domain logic bad invalid illegal argument state value type validation",
	"data database db dao sql psql pg postgres postgresql mysql sqlite mssql oracle jdbc odbc mongo mongodb redis kafka amqp rabbit elastic elasticsearch dynamo",
	"query batch update statement transaction persistence repository storage store orm jpa hibernate sequelize prisma typeorm knex alchemy supabase postgrest",
	"firebase aws s3 azure google cloud axios fetch ajax guzzle apollo feign retrofit dio resource access nested wrapped programming integrity operational interface",
)

// commonTypes are types that many different errors have: those of languages and libraries,
// which programs throw with their own messages, or which carry the answer of another system.
// Their messages distinguish errors, because a template leaves out what a message quotes. Any
// other type was defined for one kind of error, and its message may contain any value.
var commonTypes = setOf(
	"Error Exception Throwable BaseException RuntimeError RuntimeException LogicException StandardError ErrorException SystemException ApplicationException",
	"panic errorString wrapError joinError fundamental withStack Failure SystemExit AggregateError AggregateException ExceptionGroup UnhandledPromiseRejection",
	"AssertionError AssertionFailedError AssertionException InvariantError",
	"TypeError ReferenceError RangeError SyntaxError EvalError URIError InternalError DOMException ChunkLoadError SecurityError",
	"ValueError KeyError IndexError LookupError AttributeError NameError UnboundLocalError ZeroDivisionError ArithmeticError OverflowError ImportError",
	"ModuleNotFoundError NotImplementedError RecursionError MemoryError StopIteration UnicodeDecodeError UnicodeEncodeError JSONDecodeError OSError IOError",
	"FileNotFoundError PermissionError ConnectionError ConnectionRefusedError ConnectionResetError TimeoutError BrokenPipeError EOFError",
	"NullPointerException IndexOutOfBoundsException ArrayIndexOutOfBoundsException StringIndexOutOfBoundsException ClassCastException NumberFormatException",
	"ArithmeticException UnsupportedOperationException ConcurrentModificationException NoSuchElementException IllegalArgumentException IllegalStateException",
	"IllegalAccessException NegativeArraySizeException StackOverflowError OutOfMemoryError NoClassDefFoundError ClassNotFoundException IOException",
	"FileNotFoundException InterruptedException ExecutionException CompletionException UninitializedPropertyAccessException ServletException",
	"NullReferenceException IndexOutOfRangeException KeyNotFoundException InvalidCastException InvalidOperationException ArgumentException",
	"ArgumentNullException ArgumentOutOfRangeException FormatException OverflowException DivideByZeroException NotSupportedException ObjectDisposedException",
	"NotImplementedException TimeoutException TaskCanceledException OperationCanceledException TargetInvocationException UnauthorizedAccessException",
	"NoMethodError ArgumentError FrozenError FloatDomainError SystemCallError LoadError FiberError ThreadError UncaughtThrowError",
	"InvalidArgumentException UnexpectedValueException DomainException OutOfBoundsException OutOfRangeException BadMethodCallException DivisionByZeroError ArgumentCountError",
	"AxiosError HTTPError HttpError HttpException HttpRequestException HttpErrorResponse FetchError ApiError APIError RequestError ResponseError ClientError",
	"ServerError NetworkError ServiceError ServiceException SocketException SocketTimeoutException ConnectException UnknownHostException",
	"GraphQLError ApolloError GrpcException StatusRuntimeException RpcException RpcError",
	"SQLException SqlException PDOException QueryException DatabaseError OperationalError ProgrammingError IntegrityError DataError InterfaceError",
	"StatementInvalid MongoError MongoServerError PrismaClientKnownRequestError QueryFailedError SequelizeDatabaseError DataIntegrityViolationException",
	"ValidationError ValidationException",
)

// setOf returns the words of some lines.
func setOf(lines ...string) map[string]bool {
	set := map[string]bool{}
	for _, line := range lines {
		for _, word := range strings.Fields(line) {
			set[word] = true
		}
	}
	return set
}
